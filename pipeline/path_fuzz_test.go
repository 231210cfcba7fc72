package pipeline

import (
	"slices"
	"testing"
)

// FuzzParsePath: what is read prints as something that reads the same.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"", "a", "a.b[0].c", "a[0][1]", "[0]", "a.", ".a", "a[", "a[-1]", "a]b", "é.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil || !slices.Equal(p, again) {
			t.Fatalf("%q is %v, which reads as %v (%v)", text, p, again, err)
		}
	})
}
