package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// TestSerialsAreReportedThatCount: an operator takes the next serial above what gateways report, and what a thief has used up counts no more once all keys were replaced.
func TestSerialsAreReportedThatCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reported := func() map[string]uint64 {
			t.Helper()
			b, _, err := w.store().Get(t.Context(), depot.State(gatewayName))
			if err != nil {
				t.Fatal(err)
			}
			e, err := signed.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			s, err := document.DecodeState(e.Payload)
			if err != nil {
				t.Fatal(err)
			}
			return s.Serials
		}
		w.commands(900, command(900, document.DoSavepoint))
		w.run(10 * time.Minute)
		if got := reported()["device/"+gatewayName]; got != 900 {
			t.Errorf("reported %d", got)
		}
		w.put(depot.Root(2), rootOf(t, 2, 0, 2, "next"))
		w.run(10 * time.Minute)
		if got := reported(); len(got) != 0 {
			t.Errorf("reported of keys that were replaced: %v", got)
		}
	})
}
