package plan

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCase09_Filters(t *testing.T) {
	data, err := os.ReadFile("testdata/09.expect.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Match []struct {
			Filter, Topic string
			Matches       bool
		}
		Bad []string `json:"config_must_be_refused_at_load"`
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.Match) == 0 || len(want.Bad) == 0 {
		t.Fatalf("%v", err)
	}
	for _, m := range want.Match {
		if err := ValidateFilter(m.Filter); err != nil {
			t.Errorf("%q: %v", m.Filter, err)
		}
		if got := MatchFilter(m.Filter, []byte(m.Topic)); got != m.Matches {
			t.Errorf("%q %q: %v", m.Filter, m.Topic, got)
		}
	}
	for _, filter := range want.Bad {
		if err := ValidateFilter(filter); err == nil {
			t.Errorf("%q: accepted", filter)
		}
		if _, _, err := ParseTopic(filter); err == nil {
			t.Errorf("%q: accepted as a topic", filter)
		}
	}
}

func TestMatchFilterAllocatesNothing(t *testing.T) {
	topic := []byte("site/17/dev/23/telemetry")
	if n := testing.AllocsPerRun(100, func() {
		for _, filter := range []string{"site/+/dev/+/telemetry", "#", "site/#", "a/b", "$share/g/site/+/dev/#"} {
			MatchFilter(filter, topic)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// matchLevels is MQTT 4.7 word for word, on split levels.
func matchLevels(filter, topic []string) bool {
	for i, level := range filter {
		switch {
		case level == "#":
			return true
		case i >= len(topic), level != "+" && level != topic[i]:
			return false
		}
	}
	return len(filter) == len(topic)
}

func FuzzMatchFilter(f *testing.F) {
	f.Add("a/+/#", "a/b/c")
	f.Add("#", "$SYS/x")
	f.Add("+/+", "/")
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if ValidateFilter(filter) != nil || topic == "" || strings.HasPrefix(filter, "$share/") {
			return
		}
		want := matchLevels(strings.Split(filter, "/"), strings.Split(topic, "/"))
		if topic[0] == '$' && filter[0] != '$' {
			want = false
		}
		if got := MatchFilter(filter, []byte(topic)); got != want {
			t.Fatalf("%q %q: %v, want %v", filter, topic, got, want)
		}
	})
}

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
	for _, text := range []string{"{a}/{a}", "x{a}", "{a", "a}", "{}", "{1}", "{a}/#/b", "{$a}"} {
		if _, _, err := ParseTopic(text); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
}
