package channel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
)

// TestAnotherBadDocumentEachTime: whoever may write to the store puts another one into each place for each look, all day. All are counted, a few are told of.
func TestAnotherBadDocumentEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		names := []string{depot.Root(2), depot.Rollout(channelName), depot.ChannelCommands(channelName), depot.DeviceCommands(gatewayName)}
		const looks = 24 * 12
		for i := range looks {
			for _, name := range names {
				w.put(name, fmt.Appendf(nil, "<html>%d</html>", i))
			}
			time.Sleep(w.poll)
		}
		w.stop()
		var counted uint64
		for _, n := range w.ch.Status().Refused {
			counted += n
		}
		if counted < looks*3 {
			t.Errorf("%d were counted, of %d", counted, looks*len(names))
		}
		if n := w.log.lines("fleet document refused"); n < len(names) || n > 25*toldInEvery*len(names) {
			t.Errorf("%d lines in a day", n)
		}
		if n := w.log.lines("fleet document refused"); uint64(n) > counted/2 {
			t.Errorf("%d lines of %d that were refused", n, counted)
		}
	})
}

// TestWhatFailsForLongIsToldOnce: a release that is named and not there, and a ledger that cannot be written.
func TestWhatFailsForLongIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rollout(rolloutOf(1, "r1", fmt.Sprintf("%064d", 1)))
		w.run(24 * time.Hour)
		if n := w.log.lines("roll-out is not taken up; it is tried again"); n != 1 {
			t.Errorf("a release that is not there is told of %d times in a day", n)
		}
		c := &Channel{failed: map[string]string{}}
		full := fmt.Errorf("write: no space left on device")
		var said []bool
		for _, err := range []error{full, full, nil, full, fmt.Errorf("another"), full} {
			said = append(said, c.failing("x", err))
		}
		if got := fmt.Sprint(said); got != "[true false false true true true]" {
			t.Error(got)
		}
	})
}
