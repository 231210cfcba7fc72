package snapshot

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStretchedInterval: checkpoints keep the longer distance, a demand and a count do not wait for it, and it ends at once.
func TestStretchedInterval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig() // every second
		cfg.EveryRecords = 100
		st := newStand(t, cfg, openTestBolt(t, t.TempDir()))
		st.c.Stretch(time.Minute)
		st.run()
		step := func(wait time.Duration, records int, want uint64, what string) {
			t.Helper()
			st.e.change(func(p *plant) {
				for range records {
					p.put(0, "a", "", time.Now().String())
				}
			})
			time.Sleep(wait)
			synctest.Wait()
			if n := st.c.Metrics().Committed; n != want {
				t.Errorf("%s: %d checkpoints, want %d", what, n, want)
			}
		}
		step(50*time.Second, 1, 0, "within the stretch")
		step(11*time.Second, 1, 1, "behind it")
		step(time.Second, 100, 2, "by count")
		st.e.change(func(p *plant) { p.put(0, "b", "", "1") })
		st.trigger()
		step(2*time.Second, 1, 3, "demanded, and one behind it")
		st.c.Stretch(0)
		synctest.Wait()
		step(0, 0, 4, "no stretch any more")
		step(1100*time.Millisecond, 1, 5, "as configured")
		if err := st.stop(); err != nil {
			t.Error(err)
		}
	})
}
