package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// TestRule15_AbortedChangesAreInTheNextManifest has a checkpoint fail in each way, changes other keys, and wants all in the next one.
func TestRule15_AbortedChangesAreInTheNextManifest(t *testing.T) {
	ways := map[string]func(st *stand, id *uint64){
		"outbox": func(st *stand, _ *uint64) { st.o.fail(errors.New("no space")) },
		"task late": func(st *stand, _ *uint64) {
			st.e.set(func(s pipeline.TaskSnapshot) bool {
				if s.Task != "t2" {
					return false
				}
				go func() { time.Sleep(20 * time.Second); st.c.Deliver(s) }()
				return true
			}, nil)
		},
		"store":  func(st *stand, _ *uint64) { err := errors.New("no space"); st.s.(*failingStore).fail.Store(&err) },
		"engine": func(st *stand, _ *uint64) { st.e.set(nil, errors.New("stopping")) },
	}
	for name, plantFault := range ways {
		for _, forget := range []bool{false, true} {
			if forget && name == "engine" {
				continue // nothing was frozen
			}
			t.Run(fmt.Sprintf("%s/forget=%v", name, forget), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					st := newStand(t, testConfig(), &failingStore{Store: openTestBolt(t, t.TempDir())})
					st.c.bugs.forgetAborted = forget
					st.run()
					st.e.change(func(p *plant) { p.put(0, "a", "", "1"); p.put(0, "b", "", "1"); p.put(2, "z", "", "1") })
					st.trigger()
					st.e.change(func(p *plant) { p.put(0, "a", "", "2"); p.del(0, "b", ""); p.put(2, "y", "", "2") })
					plantFault(st, nil)
					if _, err := st.c.Trigger(t.Context()); err == nil {
						t.Fatal("checkpoint did not fail")
					}
					st.o.fail(nil)
					st.e.set(nil, nil)
					st.s.(*failingStore).fail.Store(nil)
					st.e.change(func(p *plant) { p.put(0, "c", "", "3") })
					ck := st.trigger()
					_ = st.stop()
					m := st.c.Metrics()
					if m.Failed != 1 || m.FailedInARow != 0 || st.o.released != ck.ID {
						t.Errorf("failed %d, in a row %d, released %d", m.Failed, m.FailedInARow, st.o.released)
					}
					r, err := Restore(t.Context(), RestoreOptions{Store: st.s, Pipeline: testPipeline})
					if err != nil {
						t.Fatal(err)
					}
					got, err := contentOf(r.Source)
					if err != nil {
						t.Fatal(err)
					}
					err = sameContent(got, st.e.p.at.get(ck.ID))
					if forget && err == nil {
						t.Error("forgotten dirty list was not found")
					}
					if !forget && err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// failingStore fails Commit on demand.
type failingStore struct {
	Store
	fail atomic.Pointer[error]
}

func (f *failingStore) Begin(ctx context.Context, parent *Manifest, id uint64) (Writer, error) {
	w, err := f.Store.Begin(ctx, parent, id)
	return &failingWriter{w, f}, err
}

type failingWriter struct {
	Writer
	f *failingStore
}

func (w *failingWriter) Commit(ctx context.Context, m *Manifest) error {
	if err := w.f.fail.Load(); err != nil {
		return *err
	}
	return w.Writer.Commit(ctx, m)
}

func TestFailuresAlarmAndEndRunOnlyWhenTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		st.o.fail(errors.New("disk full"))
		st.run()
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if m := st.c.Metrics(); m.Failed < 15 || !m.Alarm {
			t.Fatalf("%+v", m)
		}
		st.o.fail(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m := st.c.Metrics(); m.Alarm || m.Committed != 1 || m.LastGoodAge(time.Now()) > 3*time.Second {
			t.Fatalf("%+v", m)
		}
		_ = st.stop()
		st.restored()
	})
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.TolerableFailures = 2
		st := newStand(t, cfg, openTestBolt(t, t.TempDir()))
		st.o.fail(errors.New("disk full"))
		st.run()
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		err := <-st.res
		if !errors.Is(err, ErrTooManyFailures) || !errors.Is(err, st.o.sealErr) || st.c.Metrics().Failed != 3 {
			t.Fatalf("got %v after %d failures", err, st.c.Metrics().Failed)
		}
		if _, err := st.c.Trigger(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
		st.end()
	})
}

// TestWriterTimeout: a store that hangs until it is cancelled gives ErrTimeout, and the next checkpoint succeeds.
func TestWriterTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hang := &hangingStore{Store: openTestBolt(t, t.TempDir())}
		hang.hang.Store(true)
		st := newStand(t, testConfig(), hang)
		st.run()
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		if _, err := st.c.Trigger(t.Context()); !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v", err)
		}
		hang.hang.Store(false)
		st.trigger()
		_ = st.stop()
		st.restored()
	})
}

type hangingStore struct {
	Store
	hang atomic.Bool
}

func (h *hangingStore) Begin(ctx context.Context, parent *Manifest, id uint64) (Writer, error) {
	if h.hang.Load() && parent != nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Store.Begin(ctx, parent, id)
}
