//go:build !arm && !386

package powercut

import (
	"strings"
	"testing"
	"time"
)

// planted is a fault that must be found, in a variant that meets it often.
type planted struct {
	fault string // of the agent; "": of the mount
	variant
}

// faultImages bounds at how many crash points a fault is looked for. The first few show it as a rule; a machine with much else to do has less under way at each (confirm-early
// was missed at 60 of them, of 15 s each).
const faultImages = 150

func plantedFaults() []planted {
	all := []planted{
		{"", variant{name: "nobarrier", mount: "nobarrier"}},
		{"not-synced", variant{flushTakes: sdCard}},
		{"reuse-not-synced", variant{flushTakes: sdCard}},
		{"manifest-first", variant{flushTakes: sdCard}},
		{"confirm-early", variant{flushTakes: sdCard}},
	}
	if long() { // it takes a cut in the instant between a trim, of which there are few, and the next sync
		all = append(all, planted{"outbox-trim-early", variant{flushTakes: sdCard}})
	}
	for i := range all {
		v := &all[i].variant
		v.images = max(v.images, faultImages)
		v.qos, v.rate, v.slowness, v.patience, v.untilBad, v.tally = 1, 400, 30*time.Millisecond, 20*time.Second, true, &tally{}
		if f := all[i].fault; f != "" {
			v.name, v.env = f, []string{"WEIR_FAULT=" + f}
		}
	}
	return all
}

// TestPlantedFaults: an agent that breaks a promise, and an ext4 that does, are found out.
func TestPlantedFaults(t *testing.T) {
	needWeir(t)
	for _, p := range plantedFaults() {
		t.Run(p.name, func(t *testing.T) {
			problems := p.run(t, drawSeed(t))
			t.Logf("\n%s\n%s\n%s", head, p.tally.row(p.name), strings.Join(problems, "\n"))
			if p.tally.bad == 0 {
				t.Errorf("not found at %d crash points", p.tally.images)
			}
		})
	}
}
