package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// apply makes the content at m of that at since and what changed.
func (st *stand) apply(m *Manifest, since uint64) error {
	got := content{}
	maps.Copy(got, st.e.p.at.get(since))
	if since == 0 {
		got = content{}
	}
	last := ""
	err := Changed(st.t.Context(), st.s, m, since, func(uid, table, key, sub, val []byte, deleted bool) error {
		k := contentKey(string(uid), string(table), key, sub)
		if at := fmt.Sprintf("%s\x00%s\x00%s\x00%s", uid, table, key, sub); at <= last {
			return errors.New("out of order: " + k)
		} else {
			last = at
		}
		if deleted {
			delete(got, k)
		} else {
			got[k] = string(val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sameContent(got, st.e.p.at.get(m.ID))
}

// TestKeepFromKeepsChanges: whatever merges bases meanwhile, what changed since a checkpoint can be read, in both stores; the journal is not held for it. Without KeepFrom the changes
// go with the checkpoints, and that is said.
func TestKeepFromKeepsChanges(t *testing.T) {
	for name, open := range testStores {
		for _, keep := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/keep=%v", name, keep), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					cfg := testConfig()
					cfg.RebaseDeltas = 3
					st := newStand(t, cfg, open(t))
					st.run()
					rnd := rand.New(rand.NewPCG(1, 2))
					change := func() Checkpoint {
						st.e.change(func(p *plant) {
							for range 8 {
								k := fmt.Sprint("k", rnd.IntN(30))
								if rnd.IntN(3) == 0 {
									p.del(rnd.IntN(len(p.tables)), k, "s")
								} else {
									p.put(rnd.IntN(len(p.tables)), k, "s", fmt.Sprint(rnd.IntN(1000)))
								}
							}
						})
						return st.trigger()
					}
					for range 5 {
						change()
					}
					since := change()
					if keep {
						st.c.KeepFrom(since.ID)
					}
					var err error
					for range 20 {
						c := change()
						if err = st.apply(c.Manifest, since.ID); err != nil {
							break
						}
						if werr := st.apply(c.Manifest, 0); werr != nil {
							t.Fatalf("the whole of checkpoint %d: %v", c.ID, werr)
						}
					}
					if keep && err != nil || !keep && !errors.Is(err, ErrNoChanges) {
						t.Errorf("keep %v: %v", keep, err)
					}
					if m := st.c.Metrics(); m.RetainedCount != 3 || st.j.first <= since.Position {
						t.Errorf("the journal is held: %d retained, it begins at %d, the checkpoint stands at %d", m.RetainedCount, st.j.first, since.Position)
					}
					st.c.KeepFrom(0)
					c := change()
					if err := st.apply(change().Manifest, since.ID); !errors.Is(err, ErrNoChanges) {
						t.Errorf("after it was let go: %v", err)
					}
					if err := st.apply(c.Manifest, c.ID+5); !errors.Is(err, ErrNoChanges) {
						t.Errorf("changes since what is to come: %v", err)
					}
					_ = st.stop()
					st.restored()
				})
			})
		}
	}
}
