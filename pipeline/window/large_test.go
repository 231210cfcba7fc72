package window_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
	"github.com/weirstream/weir/store/pebblekv"
)

// largePool makes the large tables of all tests but one, over one store: each table has keys of its own. Next to nothing is kept in memory: entries,
// and timers beyond the first one or two, come and go. nil in a build without Pebble.
var largePool = sync.OnceValues(func() (*state.Pool, error) { return openPool(func(b state.Backing) state.Backing { return b }) })

func openPool(wrap func(state.Backing) state.Backing) (*state.Pool, error) {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return state.NewPool(wrap(db), 600), nil
}

// replayAnywhere is the replay property, in memory and in large tables.
func replayAnywhere(t *rapid.T, c optest.Config, records []optest.Record, expiring bool) {
	optest.ReplayEquality(t, c, records)
	pool, err := largePool()
	if err != nil {
		t.Fatal(err)
	}
	if pool != nil {
		optest.BackendEquality(t, c, records, pool.New, expiring)
	}
}

// forgetful is a store that loses what is set in indexes.
type forgetful struct{ state.Backing }

func (f forgetful) Batch() state.Batch { return forgetfulBatch{f.Backing.Batch()} }

type forgetfulBatch struct{ state.Batch }

const indexSpace = 4 // where a key of the store has the letter of its space

func (b forgetfulBatch) Set(key, val []byte) error {
	if key[indexSpace] == 'i' {
		return nil
	}
	return b.Batch.Set(key, val)
}

// TestLostTimersAreFound: what is not in memory of timers and of the keys of panes must be in the store, else results are missing. This shows that
// the other tests do spill.
func TestLostTimersAreFound(t *testing.T) {
	pool, err := openPool(func(b state.Backing) state.Backing { return forgetful{b} })
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	early := hopping(20, 20, 0)
	early.SizeMs, early.SlideMs, early.EarlyMs = 40, 40, 5
	sessions := session(20, 0, false)
	sessions.GapMs = 10
	panes := hopping(20, 5, 0)
	panes.SizeMs, panes.SlideMs = 20, 5
	for name, op := range map[string]func() pipeline.Operator{
		"session": newSession(sessions), "hopping": newHopping(panes), "early": newHopping(early),
		"processing": processing(newSession(sessions)),
	} {
		found := false
		for seed := 0; seed < 50 && !found; seed++ {
			found = rapid.Custom(func(t *rapid.T) string {
				records := drawIntegerRecords(t)
				for i := range records {
					records[i].Elapsed, records[i].Wall = int64(i)*1e6, int64(i)
				}
				return optest.BackendDiff(t, optest.Config{New: op, Ports: 2}, records, pool.New, false)
			}).Example(seed) != ""
		}
		if !found {
			t.Errorf("%s: lost timers are not found", name)
		}
	}
}

// steps is a store that counts how far its iterators go.
type steps struct {
	state.Backing
	n *int
}

func (s steps) Iter(lower, upper []byte) (state.Iter, error) {
	it, err := s.Backing.Iter(lower, upper)
	return stepsIter{it, s.n}, err
}

type stepsIter struct {
	state.Iter
	n *int
}

func (i stepsIter) Next() bool {
	*i.n++
	return i.Iter.Next()
}

// TestNothingScansAllKeys: a watermark that reaches no end, a batch's end and a barrier look at a few entries, however many there are.
func TestNothingScansAllKeys(t *testing.T) {
	n := 0
	pool, err := openPool(func(b state.Backing) state.Backing { return steps{b, &n} })
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	const keys, rounds = 2000, 50
	ttl := tumbling(time.Hour, 0)
	ttl.TTL = 1 << 40
	sessions := session(time.Hour, 0, false)
	sessions.TTL = 1 << 40
	panes := hopping(time.Hour, time.Minute, time.Hour)
	panes.EarlyMs = time.Hour.Milliseconds()
	for name, op := range map[string]pipeline.Operator{
		"tumbling": window.NewTumbling(ttl), "session": window.NewSession(sessions), "hopping": window.NewHopping(panes),
	} {
		s := newStreamIn(t, op, keys, 1, pool.New)
		s.warm(time.Second)
		for _, table := range s.made {
			table.Freeze().Commit()
		}
		n = 0
		for i := range int64(rounds) {
			s.out.At = pipeline.At{Pos: 1, Phase: pipeline.After}
			op.Watermark(s.time+i, s.out)
			if a, ok := op.(pipeline.Aging); ok {
				a.Aged(s.out)
			}
			for _, table := range s.made {
				table.SetNow(i)
				table.Freeze().Commit()
			}
		}
		if n > 10*rounds {
			t.Errorf("%s: %d times a watermark, a batch's end and a barrier go %d steps through the store, want %d at most", name, rounds, n, 10*rounds)
		}
	}
}
