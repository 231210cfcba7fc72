package equality

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// shortSighted is a store whose walks of one space ('e' of entries, 'g' of those with subkeys, 'i' of indexes) end too soon: after so many keys.
type shortSighted struct {
	state.Backing
	space byte
	after int
}

func (s shortSighted) Iter(lower, upper []byte) (state.Iter, error) {
	it, err := s.Backing.Iter(lower, upper)
	if err != nil || lower[4] != s.space { // behind the table's number
		return it, err
	}
	return &shortIter{it, s.after}, nil
}

type shortIter struct {
	state.Iter
	left int
}

func (i *shortIter) First() bool { return i.count(i.Iter.First()) }
func (i *shortIter) Next() bool  { return i.count(i.Iter.Next()) }

func (i *shortIter) count(ok bool) bool {
	i.left--
	return ok && i.left >= 0
}

// failing is a fatal that ends the case instead of the test.
type failing struct{}

type failure string

func (failing) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// wrongWith runs a drawn case with every life's tables made by tables, and tells what is wrong, "" when nothing is.
func wrongWith(d *drawn, tables func(string, state.Spec) *state.Table) (wrong string) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			wrong = string(f)
		}
	}()
	lives := make([]life, len(d.lives))
	for i, l := range d.lives {
		l.large, l.tables = true, tables
		lives[i] = l
	}
	return live(failing{}, d.graph(failing{}), d.entries, d.all, d.counts, lives, &memoryKeeper{})
}

// TestSpilledStateIsRead: joins, sorts, lists and clocks do read from the store what does not fit the memory. When the walks of the tables of one kind end too
// soon, and of nothing else, it shows.
func TestSpilledStateIsRead(t *testing.T) {
	sound, err := largePool()
	if err != nil {
		t.Fatal(err)
	}
	if sound == nil {
		t.Skip("built without Pebble")
	}
	for _, c := range []struct {
		table string // of joins and sorts, of collects, of sources
		typ   string
		space byte
		after int
	}{
		{"rows", "join.row", 'g', 1}, {"rows", "join.row", 'i', 0}, {"rows", "ops.sort", 'e', 1},
		{"list", "window.list", 'g', 0}, {"source", "exec.source", 'i', 0},
	} {
		t.Run(fmt.Sprintf("%s, %c", c.typ, c.space), func(t *testing.T) {
			faulty := state.NewPool(shortSighted{largeStore(t), c.space, c.after}, 600)
			tables := func(_ string, spec state.Spec) *state.Table {
				if spec.Name == c.table && spec.Type == c.typ {
					return faulty.New(spec)
				}
				return sound.New(spec)
			}
			for seed := range 2000 {
				d := rapid.Custom(draw).Example(seed)
				if wrong := wrongWith(d, tables); wrong != "" {
					t.Logf("found with example %d: %.300s", seed, wrong)
					return
				}
			}
			t.Error("not found")
		})
	}
}
