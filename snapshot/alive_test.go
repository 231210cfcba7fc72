package snapshot

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBeat: each look makes the loop turn; a writer that hangs stays at its step, also behind the timeout, and one that is done leaves it.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		release := make(chan struct{})
		st.c.bugs.hang = func() { <-release }
		st.run()
		before := st.c.Beat()
		synctest.Wait()
		if after := st.c.Beat(); after.Turns == before.Turns || after.Busy {
			t.Errorf("idle: %+v, then %+v", before, after)
		}
		st.e.change(func(p *plant) { p.put(0, "k", "", "v") })
		go st.c.Trigger(st.ctx)
		synctest.Wait()
		before = st.c.Beat()
		time.Sleep(time.Hour)
		synctest.Wait()
		after := st.c.Beat()
		if !before.Busy || before.Aligning || after.Step != before.Step || !after.Busy || after.Turns == before.Turns {
			t.Errorf("while the writer hangs: %+v, then %+v", before, after)
		}
		close(release)
		time.Sleep(time.Hour)
		synctest.Wait()
		if b := st.c.Beat(); b.Step == before.Step || b.Busy {
			t.Errorf("behind it: %+v", b)
		}
		if err := st.stop(); err != nil {
			t.Error(err)
		}
	})
}
