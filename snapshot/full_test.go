package snapshot

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestCase15_RealLogOnAFullDisk: the disk gets full in the middle of checkpoints and merges. No checkpoint is published, the last
// good one stays valid, also after a restart on the full disk; with space again everything is in the next one.
func TestCase15_RealLogOnAFullDisk(t *testing.T) {
	for free := int64(0); free < 200<<10; free += 9 << 10 {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				mem := disktest.NewMem()
				fs := disktest.NewFaulty(mem)
				s, err := openTestLog(fs, "ck", testLogSegment)
				if err != nil {
					t.Fatal(err)
				}
				cfg := testConfig()
				cfg.Interval, cfg.Timeout, cfg.RebaseDeltas = 0, 100*time.Millisecond, 3
				st := newStand(t, cfg, s)
				st.ctx, st.end = t.Context(), func() {}
				r := newRand(uint64(free))
				change := func() {
					st.e.change(func(p *plant) {
						for i := range 20 {
							randomChange(r, p, 60)
							val := make([]byte, 300)
							for j := range val {
								val[j] = byte('!' + r.IntN(90))
							}
							p.put(0, fmt.Sprint("big", i), "", string(val))
						}
					})
				}
				done := make(chan error, 1)
				go func() { done <- st.c.Run(t.Context()) }()
				change()
				good, err := st.c.Trigger(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fs.LimitSpace(free)
				failed := 0
				for i := 0; i < 12; i++ {
					change()
					ck, err := st.c.Trigger(t.Context())
					if errors.Is(err, ErrStoreFailed) || errors.Is(err, ErrClosed) {
						t.Fatalf("no space failed the store: %v", err)
					}
					if err != nil {
						if failed++; failed > 2 {
							break
						}
						continue
					}
					good = ck
				}
				if failed == 0 {
					t.Fatal("the disk did not get full")
				}
				if m := st.c.Metrics(); m.LastID != good.ID || st.o.released != good.ID {
					t.Fatalf("%+v", m)
				}
				again, err := openTestLog(mem.Clone(), "ck", testLogSegment) // restart; a checkpoint whose sync did not end may be there too
				if err != nil {
					t.Fatal(err)
				}
				res, err := Restore(t.Context(), RestoreOptions{Store: again, Pipeline: testPipeline, JournalFirst: st.j.first})
				if err != nil || res.Manifest.ID < good.ID {
					t.Fatalf("%+v, %v", res, err)
				}
				if err := readsBack(again, res.Manifest, st.e.p.at.get(res.Manifest.ID)); err != nil {
					t.Fatal(err)
				}
				_ = again.Close()
				fs.LimitSpace(1 << 30)
				change()
				var ck Checkpoint
				for range 50 { // the log asks for space once a second
					if ck, err = st.c.Trigger(t.Context()); err == nil {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				if err != nil {
					t.Fatalf("no checkpoint with space again: %v", err)
				}
				if err := readsBack(s, ck.Manifest, st.e.p.at.get(ck.ID)); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
					t.Error(err)
				}
			})
		})
	}
}
