package topic

import (
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	for text, filter := range map[string]string{
		"a/b": "a/b", "a/{k}": "a/+", "a/x-{k}-{l}/c": "a/+/c", "{$gateway}/{k}": "+/+", "{k}": "+", "a//b": "a//b",
	} {
		p, err := ParseTemplate(text)
		if err != nil || p.Filter() != filter || len(p.Texts) != len(p.Columns)+1 {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{"": "empty", "a/+": "publish", "a/#": "publish", "a/{": "without a name", "a/{}": "without a name", "a}": "publish", "$SYS/x": "begins", "{$sik}": "$sink"} {
		if _, err := ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseTemplate(f *testing.F) {
	f.Add("a/{k}/{$sink}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseTemplate(text)
		if err != nil {
			return
		}
		again := p.Texts[0]
		for i, c := range p.Columns {
			again += "{" + c + "}" + p.Texts[i+1]
		}
		if again != text {
			t.Fatalf("%q became %q", text, again)
		}
	})
}
