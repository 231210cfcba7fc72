package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/disk"
)

var testPipeline = UUID{1, 2, 3}

// content is what a checkpoint must give back: uid/table/key/sub -> value.
type content map[string]string

func contentKey(uid, table string, key, sub []byte) string {
	return fmt.Sprintf("%s/%s/%q/%q", uid, table, key, sub)
}

// testTable is one table of the test pipeline with the content it ought to have.
type testTable struct {
	task, uid string
	t         *state.Table
}

// plant is a pipeline without an engine: tables that change, and what they held at each checkpoint.
type plant struct {
	tables []*testTable
	now    content
	at     *contents
	pos    pipeline.Position
	seq    uint64
}

// contents are what the tables held at each barrier. Crash tests judge images while checkpoints go on.
type contents struct {
	mu sync.Mutex
	of map[uint64]content
}

func (c *contents) get(id uint64) content {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id]
}

func (c *contents) set(id uint64, held content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[id] = held
}

func (c *contents) drop(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, id)
}

func (c *contents) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.of)
}

func newPlant() *plant {
	return &plant{now: content{}, at: &contents{of: map[uint64]content{}}, tables: []*testTable{
		{"t1", "s1", state.New(state.Spec{Name: "acc", Kind: state.Value, Type: "acc", Version: 1})},
		{"t1", "s1", state.New(state.Spec{Name: "late", Kind: state.Map, Type: "late", Version: 2})},
		{"t2", "s2", state.New(state.Spec{Name: "acc", Kind: state.Value, Type: "x", Version: 1})},
	}}
}

var testTasks = []string{"t1", "t2"}

// put and del change a table; each counts as a record and gives one result.
func (p *plant) put(table int, key, sub, val string) {
	t := p.tables[table]
	if t.t.Spec().Kind != state.Map {
		sub = ""
	}
	t.t.Lock()
	defer t.t.Unlock()
	if err := t.t.PutSub([]byte(key), []byte(sub), []byte(val)); err != nil {
		panic(err)
	}
	p.now[contentKey(t.uid, t.t.Spec().Name, []byte(key), []byte(sub))] = val
	p.pos++
	p.seq++
}

func (p *plant) del(table int, key, sub string) {
	t := p.tables[table]
	if t.t.Spec().Kind != state.Map {
		sub = ""
	}
	t.t.Lock()
	t.t.DeleteSub([]byte(key), []byte(sub))
	t.t.Unlock()
	delete(p.now, contentKey(t.uid, t.t.Spec().Name, []byte(key), []byte(sub)))
	p.pos++
	p.seq++
}

// freeze takes the snapshots of all tasks.
func (p *plant) freeze(id uint64) []pipeline.TaskSnapshot {
	b := pipeline.Barrier{ID: id, Position: p.pos}
	var out []pipeline.TaskSnapshot
	for _, task := range testTasks {
		s := pipeline.TaskSnapshot{Task: task, Barrier: b}
		for _, t := range p.tables {
			if t.task == task {
				t.t.Lock()
				s.Parts = append(s.Parts, pipeline.StatePart{UID: t.uid, Spec: t.t.Spec(), Frozen: t.t.Freeze()})
				t.t.Unlock()
			}
		}
		if task == "t2" {
			s.Sinks = []pipeline.SinkMark{{UID: "out", Generation: 1, Seq: p.seq, Chain: p.seq * 7}}
		}
		out = append(out, s)
	}
	p.at.set(id, maps.Clone(p.now))
	return out
}

// load makes a plant from a restored checkpoint.
func (p *plant) load(src pipeline.StateSource) (*plant, error) {
	n := newPlant()
	n.at = p.at
	n.pos = src.Position()
	for _, m := range src.Sinks() {
		n.seq = m.Seq
	}
	for _, t := range n.tables {
		_, _, err := src.Entries(t.uid, t.t.Spec().Name, func(key, sub, val []byte) error {
			n.now[contentKey(t.uid, t.t.Spec().Name, key, sub)] = string(val)
			t.t.Lock()
			defer t.t.Unlock()
			return t.t.Load(key, sub, val)
		})
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// contentOf reads a whole checkpoint; each key may come once.
func contentOf(src pipeline.StateSource) (content, error) {
	got := content{}
	for _, t := range newPlant().tables {
		name := t.t.Spec().Name
		_, _, err := src.Entries(t.uid, name, func(key, sub, val []byte) error {
			k := contentKey(t.uid, name, key, sub)
			if _, twice := got[k]; twice {
				return errors.New("key twice: " + k)
			}
			got[k] = string(val)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func sameContent(got, want content) error {
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			return fmt.Errorf("key %s: %q (%v), want %q", k, g, ok, v)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d keys, want %d", len(got), len(want))
	}
	return nil
}

// checkpoint drives a store directly through one commit, in the coordinator's order.
func (p *plant) checkpoint(ctx context.Context, s Store, parent *Manifest, id, oldest uint64, base BaseRef) (*Manifest, error) {
	w, err := s.Begin(ctx, parent, id)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	m := &Manifest{Pipeline: testPipeline, ID: id, Oldest: oldest, Position: p.pos, Tasks: testTasks, Base: base}
	if parent != nil {
		m.Parent = parent.ID
	}
	snaps := p.freeze(id)
	end := func(commit bool) {
		for _, s := range snaps {
			for _, part := range s.Parts {
				if commit {
					part.Frozen.Commit()
				} else {
					part.Frozen.Abort()
				}
			}
		}
	}
	for _, snap := range snaps {
		m.Sinks = append(m.Sinks, snap.Sinks...)
		for _, part := range snap.Parts {
			t := TableMeta{UID: part.UID, Spec: part.Spec, Since: id}
			if parent != nil {
				if old, ok := parent.Table(part.UID, part.Spec.Name); ok {
					t.Since = old.Since
				}
			}
			m.Tables = append(m.Tables, t)
		}
		if err := w.Write(ctx, snap.Task, snap.Parts); err != nil {
			end(false)
			return nil, err
		}
	}
	if err := w.Commit(ctx, m); err != nil {
		end(false)
		return nil, err
	}
	end(true)
	return m, nil
}

// fakeJournal holds records from first on; it remembers the order of calls.
type fakeJournal struct {
	mu     sync.Mutex
	first  pipeline.Position
	retain pipeline.Position
	trims  int
	onTrim func(first pipeline.Position) error
}

func (j *fakeJournal) Retain(_ string, pos pipeline.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.retain = pos
}

func (j *fakeJournal) Trim(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trims++
	if j.retain+1 > j.first {
		j.first = j.retain + 1
		if j.onTrim != nil {
			return j.onTrim(j.first)
		}
	}
	return nil
}

// fakeOutbox seals to a range and remembers what it was told.
type fakeOutbox struct {
	mu       sync.Mutex
	log      []string
	sealErr  error
	released uint64
}

func (o *fakeOutbox) Seal(_ context.Context, b pipeline.Barrier) ([]OutboxRange, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprint("seal ", b.ID))
	return []OutboxRange{{UID: "out", Generation: 1, Confirmed: 2, Last: uint64(b.Position), Chain: 9}}, o.sealErr
}

func (o *fakeOutbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealErr = err
}

func (o *fakeOutbox) Released(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = max(o.released, id)
	o.log = append(o.log, fmt.Sprint("released ", id))
}

// fakeEngine delivers the plant's snapshots, through hold when a test sets it.
type fakeEngine struct {
	p    *plant
	c    *Coordinator
	mu   sync.Mutex // guards the plant
	hold func(s pipeline.TaskSnapshot) bool
	fail error
}

func (e *fakeEngine) Inject(_ context.Context, id uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	for _, s := range e.p.freeze(id) {
		if e.hold == nil || !e.hold(s) {
			e.c.Deliver(s)
		}
	}
	return nil
}

func (e *fakeEngine) set(hold func(s pipeline.TaskSnapshot) bool, fail error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold, e.fail = hold, fail
}

// change runs f on the plant and reports the records to the coordinator.
func (e *fakeEngine) change(f func(p *plant)) {
	e.mu.Lock()
	before := e.p.pos
	f(e.p)
	n := e.p.pos - before
	e.mu.Unlock()
	e.c.Records(int(n))
}

func testIdentity() Identity {
	return Identity{Pipeline: testPipeline, Generation: 1, Incarnation: Incarnation{1, 0}, Behaviours: []Behaviour{{"s1", 1}, {"s2", 4}}}
}

// testStores open an empty store of each kind that has its checkpoints in files of its own.
var testStores = map[string]func(t *testing.T) Store{
	"log": func(t *testing.T) Store {
		s, err := openTestLog(disk.OS, t.TempDir(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	},
	"bbolt": func(t *testing.T) Store { return openTestBolt(t, t.TempDir()) },
}

func openTestBolt(t testing.TB, dir string) *BoltStore {
	t.Helper()
	s, err := OpenBolt(BoltOptions{Path: filepath.Join(dir, "checkpoints.bolt"), Pipeline: testPipeline})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
