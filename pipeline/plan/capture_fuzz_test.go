package plan

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/pipeline/topic"
)

// FuzzParseTopic: what is taken is a filter of MQTT; what is not says where it is wrong.
func FuzzParseTopic(f *testing.F) {
	for _, s := range []string{"a/b", "site/{site}/dev/{device}/+", "#", "a/#", "{a}{b}", "{}", "a/{x", "$share/g/a/{k}", "a/#/b", "", "a//{x}/", "{a}/{a}", "a/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, captures, err := ParseTopic(text)
		if err != nil {
			var e *TopicError
			if errors.As(err, &e) && (e.Offset < 0 || e.Offset > len(text) || e.Msg == "") {
				t.Fatalf("%q: bad error %+v", text, e)
			}
			return
		}
		if err := topic.Validate(filter); err != nil {
			t.Fatalf("%q subscribes to %q: %v", text, filter, err)
		}
		for i, c := range captures {
			if c.Name == "" || i > 0 && captures[i-1].Level >= c.Level {
				t.Fatalf("%q captures %+v", text, captures)
			}
		}
	})
}
