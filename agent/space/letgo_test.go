package space

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// TestRule19_FullJournalLetsGoOfTheOneThatStalls: not of one that goes on, and not before its time.
func TestRule19_FullJournalLetsGoOfTheOneThatStalls(t *testing.T) {
	stalled := Holder{Name: "stalled", Retained: 10, Stalled: 2 * time.Hour}
	fresh := Holder{Name: "fresh", Retained: 10, Running: true, Stalled: time.Second}
	ahead := Holder{Name: "ahead", Retained: 900, Stalled: 5 * time.Hour}
	detach := Holder{Name: "detach", Retained: 10, Detach: true, Stalled: 2 * time.Minute}
	for _, c := range []struct {
		name    string
		full    bool
		holders []Holder
		want    string
	}{
		{"journal has room", false, []Holder{stalled}, ""},
		{"one stalls", true, []Holder{stalled, fresh, ahead}, "stalled"},
		{"all go on", true, []Holder{fresh}, ""},
		{"one that does not hold it is left alone", true, []Holder{fresh, ahead}, ""},
		{"on_full: detach", true, []Holder{detach, fresh}, "detach"},
	} {
		if got := strings.Join(LetGo(c.full, c.holders, RetainFailedDefault), ","); got != c.want {
			t.Errorf("%s: let go of %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLagLimit(t *testing.T) {
	for _, c := range []struct {
		bytes              int64
		first, durable, at uint64
		want               int64
	}{{1000, 1, 100, 100, 0}, {1000, 1, 100, 50, 500}, {1000, 101, 200, 50, 1000}, {1000, 101, 100, 100, 0}, {0, 1, 0, 0, 0}} {
		if got := LagShare(c.bytes, pipeline.Position(c.first), pipeline.Position(c.durable), pipeline.Position(c.at)); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	over := Holder{Name: "over", Retained: 900, Detach: true, Lag: 11, LagLimit: 10}
	hold, none, under := over, over, over
	hold.Name, hold.Detach = "hold", false
	none.Name, none.LagLimit = "none", 0
	under.Name, under.Lag = "under", 10
	if got := strings.Join(LetGo(false, []Holder{hold, none, under, over}, time.Hour), " "); got != "over" {
		t.Errorf("let go of %q", got)
	}
}
