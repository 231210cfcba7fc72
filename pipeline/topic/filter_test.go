package topic

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
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
		if err := Validate(m.Filter); err != nil {
			t.Errorf("%q: %v", m.Filter, err)
		}
		if got := Match(m.Filter, []byte(m.Topic)); got != m.Matches {
			t.Errorf("%q %q: %v", m.Filter, m.Topic, got)
		}
	}
	for _, filter := range want.Bad {
		if err := Validate(filter); err == nil {
			t.Errorf("%q: accepted", filter)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	topic := []byte("site/17/dev/23/telemetry")
	if n := testing.AllocsPerRun(100, func() {
		for _, filter := range []string{"site/+/dev/+/telemetry", "#", "site/#", "a/b", "$share/g/site/+/dev/#"} {
			Match(filter, topic)
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

func FuzzMatch(f *testing.F) {
	f.Add("a/+/#", "a/b/c")
	f.Add("#", "$SYS/x")
	f.Add("+/+", "/")
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if Validate(filter) != nil || topic == "" || strings.HasPrefix(filter, "$share/") {
			return
		}
		want := matchLevels(strings.Split(filter, "/"), strings.Split(topic, "/"))
		if topic[0] == '$' && filter[0] != '$' {
			want = false
		}
		if got := Match(filter, []byte(topic)); got != want {
			t.Fatalf("%q %q: %v, want %v", filter, topic, got, want)
		}
	})
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/#", "a", true}, {"a/+", "a/b", true}, {"a/+", "b/+", false}, {"#", "$SYS/#", false}, {"+/b", "a/+", true},
		{"a/b/#", "a/+", true}, {"a/b/c/#", "a/+", false}, {"a/+/#", "a/b", true}, {"$share/g/a/#", "a/1", true}, {"a", "a/b", false}, {"$SYS/#", "$SYS/a", true},
	} {
		if Overlap(c.a, c.b) != c.want || Overlap(c.b, c.a) != c.want {
			t.Errorf("Overlap(%q, %q) is not %v", c.a, c.b, c.want)
		}
	}
}

func TestFault(t *testing.T) {
	for topic, fine := range map[string]bool{
		"werk/ölpumpe/größe/温度/😀": true, "ob/\x0e/x": true, "/": true, "a b": true,
		"": false, "ob/\xff\xfe/prop": false, "ob/a\x00b": false, "ob/\xed\xa0\x80/x": false, "a/+": false, "#": false,
	} {
		if (Fault([]byte(topic)) == "") != fine {
			t.Errorf("%q: %q", topic, Fault([]byte(topic)))
		}
	}
}
