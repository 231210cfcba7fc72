package snapshot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// goOnPast makes n checkpoints.
func (st *stand) goOnPast(n int) (last Checkpoint) {
	for i := range n {
		st.e.change(func(p *plant) { p.put(0, fmt.Sprint("later ", i), "", "v") })
		last = st.trigger()
	}
	return last
}

// kept tells whether a checkpoint can be read and the journal behind it is there.
func (st *stand) kept(ck Checkpoint) error {
	if st.j.first > ck.Position+1 {
		return fmt.Errorf("the journal begins at %d, the checkpoint stands at %d", st.j.first, ck.Position)
	}
	if err := st.s.Verify(st.t.Context(), ck.Manifest); err != nil {
		return err
	}
	src, err := st.s.Load(ck.Manifest)
	if err != nil {
		return err
	}
	got, err := contentOf(src)
	if err != nil {
		return err
	}
	return sameContent(got, st.e.p.at.get(ck.ID))
}

// TestHeldCheckpointStays: while it is read nothing takes it, however many come behind; then it goes. The planted fault, a hold that holds
// nothing, is found by the same.
func TestHeldCheckpointStays(t *testing.T) {
	for name, open := range testStores {
		for _, fault := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fault=%v", name, fault), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					st := newStand(t, testConfig(), open(t))
					st.run()
					st.goOnPast(2)
					st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
					ck, release, err := st.c.Hold(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if fault {
						synctest.Wait() // Run may still be about the checkpoint that is held; then it waits for its next event
						clear(st.c.held)
					}
					st.goOnPast(7)
					if err := st.kept(ck); (err == nil) == fault {
						t.Errorf("held: %v", err)
					}
					release()
					synctest.Wait()
					st.goOnPast(1)
					if m := st.c.Metrics(); m.RetainedCount != 3 {
						t.Errorf("%d retained after the release", m.RetainedCount)
					}
					if err := st.kept(ck); err == nil {
						t.Error("it is there still after the release")
					}
					_ = st.stop()
					st.restored()
				})
			})
		}
	}
}

// TestAbandonedHoldHoldsNothing: whoever stops waiting does not hold what comes then.
func TestAbandonedHoldHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		st.run()
		st.o.fail(errors.New("no space")) // the checkpoint fails, the hold with it
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		if _, release, err := st.c.Hold(t.Context()); err == nil {
			t.Fatal("held a checkpoint that failed")
		} else {
			release()
		}
		st.o.fail(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := st.c.Hold(ctx); err == nil && ctx.Err() == nil {
			t.Fatal("held without waiting")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		st.goOnPast(6)
		if m := st.c.Metrics(); m.RetainedCount != 3 || len(st.c.held) != 0 {
			t.Errorf("%d retained, %d held", m.RetainedCount, len(st.c.held))
		}
		_ = st.stop()
	})
}
