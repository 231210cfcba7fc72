package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTopic(t *testing.T) {
	for _, c := range []struct {
		text, filter string
		captures     []LevelCapture
	}{
		{"a/b", "a/b", nil},
		{"site/{site}/dev/{device}/#", "site/+/dev/+/#", []LevelCapture{{"site", 1, 5}, {"device", 3, 16}}},
		{"$share/g/{a}/x", "$share/g/+/x", []LevelCapture{{"a", 0, 9}}},
		{"{a}", "+", []LevelCapture{{"a", 0, 0}}},
		{"/{a}/", "/+/", []LevelCapture{{"a", 1, 1}}},
	} {
		filter, captures, err := ParseTopic(c.text)
		if err != nil || filter != c.filter {
			t.Errorf("%q: %q, %v", c.text, filter, err)
		}
		if diff := cmp.Diff(c.captures, captures); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
	for _, text := range []string{"{a}/{a}", "x{a}", "{a", "a}", "{}", "{1}", "{a}/#/b", "{$a}", "home#", ""} {
		if _, _, err := ParseTopic(text); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
}
