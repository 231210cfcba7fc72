package state_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// model is the table as a map, and what its checkpoints must make of it.
type model struct {
	make  func(state.Spec) *state.Table
	spec  state.Spec
	table *state.Table
	now   int64
	m     map[[2]string]modelEntry
	out   []pending
	base  map[[2]string]string // encoded entries on flash
}

type modelEntry struct {
	val   string
	stamp int64
}

// pending is a checkpoint under way.
type pending struct {
	f       *state.Frozen
	content map[[2]string]modelEntry // at the barrier
	now     int64
	large   bool // Len is a bound
	encoded map[[2]string]change
	done    chan error // closed over by the goroutine that encodes; nil: not begun
}

func newModel(spec state.Spec, table func(state.Spec) *state.Table) *model {
	return &model{make: table, spec: spec, table: table(spec), m: map[[2]string]modelEntry{}, base: map[[2]string]string{}}
}

func (m *model) alive(e modelEntry, now int64) bool {
	return m.spec.TTL == 0 || now-e.stamp < m.spec.TTL
}

func (m *model) advance(to int64) {
	m.now = to
	m.table.SetNow(to)
	maps.DeleteFunc(m.m, func(_ [2]string, e modelEntry) bool { return !m.alive(e, m.now) })
}

// upsert is the model's answer: the value expected before the caller writes it.
func (m *model) upsert(k [2]string, size int) (val []byte, created, full bool) {
	e, ok := m.m[k]
	if !ok && m.spec.MaxKeys > 0 && len(m.m) >= m.spec.MaxKeys {
		return nil, false, true
	}
	val = make([]byte, size)
	copy(val, e.val)
	return val, !ok, false
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// verify compares everything readable.
func (m *model) verify(t fataler, table *state.Table) {
	t.Helper()
	if table.Len() != len(m.m) {
		t.Fatalf("Len is %d, want %d", table.Len(), len(m.m))
	}
	n := 0
	table.Range(func(key, sub, val []byte) bool {
		n++
		if e, ok := m.m[[2]string{string(key), string(sub)}]; !ok || e.val != string(val) {
			t.Fatalf("Range gives %q %q = %q, want %q, %v", key, sub, val, e.val, ok)
		}
		return true
	})
	if n != len(m.m) {
		t.Fatalf("Range gives %d entries, want %d", n, len(m.m))
	}
	if msg := table.Check(); msg != "" {
		t.Fatalf("%s", msg)
	}
}

func (p *pending) run() error {
	err := p.f.Encode(func(key, sub, val []byte, deleted bool) error {
		k := [2]string{string(key), string(sub)}
		if _, twice := p.encoded[k]; twice {
			return fmt.Errorf("%q comes twice", k)
		}
		p.encoded[k] = change{string(val), deleted}
		return nil
	})
	if n := len(p.encoded); err == nil && n != p.f.Len() && (!p.large || n > p.f.Len()) {
		err = fmt.Errorf("%d entries encoded, Len tells %d", len(p.encoded), p.f.Len())
	}
	return err
}

// encode starts the encoder, beside the owner or at once.
func (p *pending) encode(beside bool) {
	p.encoded = map[[2]string]change{}
	p.done = make(chan error, 1)
	if beside {
		go func() { p.done <- p.run() }()
		return
	}
	p.done <- p.run()
}

// commit ends the oldest checkpoint well: its delta goes to flash, and what is restored from there must be the table at
// its barrier.
func (m *model) commit(t fataler, unlock, lock func()) {
	t.Helper()
	p := m.out[0]
	m.out = m.out[1:]
	unlock()
	if p.done == nil {
		p.encode(false)
	}
	if err := <-p.done; err != nil {
		t.Fatalf("encode: %v", err)
	}
	p.f.Commit()
	lock()
	for k, c := range p.encoded {
		if c.deleted {
			delete(m.base, k)
		} else {
			m.base[k] = c.val
		}
	}
	m.restored(t, p)
}

func (m *model) restored(t fataler, p pending) {
	t.Helper()
	back := &model{make: m.make, spec: m.spec, table: m.make(m.spec), m: p.content, now: p.now}
	for k, v := range m.base {
		if err := back.table.Load([]byte(k[0]), []byte(k[1]), []byte(v)); err != nil {
			t.Fatalf("load: %v", err)
		}
	}
	back.table.SetNow(p.now)
	back.verify(t, back.table)
	if n := back.table.Freeze().Len(); n != 0 {
		t.Fatalf("a restored table has %d changes", n)
	}
	if m.spec.TTL == 0 {
		return
	}
	back.m = maps.Clone(p.content)
	back.advance(p.now + m.spec.TTL/2) // the time of the last write has come back as well
	back.verify(t, back.table)
}

// abort ends checkpoint i badly, and all behind it.
func (m *model) abort(i int, unlock, lock func()) {
	unlock()
	m.out[i].f.Abort()
	for _, p := range m.out[i:] {
		if p.done != nil {
			<-p.done // whole or ErrAborted
		}
		p.f.Abort()
	}
	lock()
	m.out = m.out[:i]
}

func drawSpec(t *rapid.T) state.Spec {
	return state.Spec{
		Name: "t", Type: "test", Version: 1,
		Kind:    rapid.SampledFrom([]state.Kind{state.Value, state.Map}).Draw(t, "kind"),
		TTL:     rapid.SampledFrom([]int64{0, 5, 50}).Draw(t, "ttl"),
		MaxKeys: rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "maxKeys"),
	}
}

func (m *model) freeze() {
	m.out = append(m.out, pending{f: m.table.Freeze(), content: maps.Clone(m.m), now: m.now, large: m.table.Large()})
}

// upsertRef spares a large table what it has not.
func (m *model) upsertRef(key []byte, size int) ([]byte, state.Ref, bool, error) {
	if m.table.Large() {
		b, created, err := m.table.Upsert(key, size)
		return b, 0, created, err
	}
	return m.table.UpsertRef(key, size)
}

func (m *model) at(ref state.Ref, key []byte) (k, v []byte) {
	if m.table.Large() {
		v, _ = m.table.Get(key)
		return key, v
	}
	return m.table.At(ref)
}

// step does one random operation on both. The table's lock is held.
func (m *model) step(t *rapid.T, beside bool) {
	pick := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
	k := [2]string{fmt.Sprint("key", pick("key", 12)), ""}
	if m.spec.Kind == state.Map {
		k[1] = []string{"", "a", "b", "\x00"}[pick("sub", 4)]
	}
	key, sub := []byte(k[0]), []byte(k[1])
	unlock, lock := m.table.Unlock, m.table.Lock
	switch op := pick("op", 20); op {
	case 0, 1, 2, 3, 4:
		v := rapid.StringN(0, 40, 60).Draw(t, "val")
		_, _, full := m.upsert(k, 0)
		if err := m.table.PutSub(key, sub, []byte(v)); (err != nil) != full {
			t.Fatalf("put: %v, want full %v", err, full)
		} else if err == nil {
			m.m[k] = modelEntry{v, m.now}
		}
	case 5, 6, 7:
		k[1] = ""
		size := []int{0, 1, 8, 30, 100, 40_000}[pick("size", 6)]
		want, created, full := m.upsert(k, size)
		b, ref, c, err := m.upsertRef(key, size)
		if (err != nil) != full {
			t.Fatalf("upsert: %v, want full %v", err, full)
		} else if err != nil {
			return
		}
		if string(b) != string(want) || c != created {
			t.Fatalf("upsert of %d bytes gives %.20q, %v; want %.20q, %v", size, b, c, want, created)
		}
		if size > 0 {
			b[0]++
		}
		m.m[k] = modelEntry{string(b), m.now}
		if _, v := m.at(ref, key); string(v) != string(b) {
			t.Fatalf("At gives %.20q, want %.20q", v, b)
		}
	case 8, 9, 10:
		_, want := m.m[k]
		if got := m.table.DeleteSub(key, sub); got != want {
			t.Fatalf("delete tells %v, want %v", got, want)
		}
		delete(m.m, k)
	case 11:
		before := len(m.m)
		maps.DeleteFunc(m.m, func(x [2]string, _ modelEntry) bool { return x[0] == k[0] })
		if got := m.table.Delete(key); got != (len(m.m) < before) {
			t.Fatalf("delete tells %v", got)
		}
	case 12, 13:
		m.advance(m.now + int64(pick("by", 4)))
	case 14, 15:
		m.freeze()
	case 16:
		for i := range m.out {
			if m.out[i].done == nil {
				if !beside {
					unlock()
				}
				m.out[i].encode(beside)
				if !beside {
					lock()
				}
				break
			}
		}
	case 17, 18:
		if len(m.out) > 0 {
			m.commit(t, unlock, lock)
		}
	case 19:
		if len(m.out) > 0 {
			m.abort(pick("abort", len(m.out)), unlock, lock)
		}
	}
	got, ok := m.table.GetSub([]byte(k[0]), []byte(k[1]))
	if e, want := m.m[k]; ok != want || string(got) != e.val {
		t.Fatalf("get %q: %.20q, %v; want %.20q, %v", k, got, ok, e.val, want)
	}
}

func (m *model) finish(t fataler, unlock, lock func()) {
	for len(m.out) > 0 {
		m.commit(t, unlock, lock)
	}
	m.freeze()
	m.commit(t, unlock, lock)
	m.verify(t, m.table)
	if m.table.Large() {
		return
	}
	if dead, all := m.table.Tombstones(); dead != 0 || all != len(m.m)+m.table.Expired() {
		t.Fatalf("%d tombstones are held, %d entries for %d", dead, all, len(m.m))
	}
}

func propertyModel(beside bool, table func(state.Spec) *state.Table) func(*rapid.T) {
	return func(t *rapid.T) {
		m := newModel(drawSpec(t), table)
		m.table.Lock()
		defer m.table.Unlock()
		steps := rapid.IntRange(1, 150).Draw(t, "steps")
		for range steps {
			m.step(t, beside)
			if beside && len(m.out) > 0 { // let the encoder in between two batches
				m.table.Unlock()
				m.table.Lock()
			}
			if !beside {
				m.verify(t, m.table)
			}
		}
		m.finish(t, m.table.Unlock, m.table.Lock)
	}
}

// TestModel: the table is the model at every step, and base and deltas give the table at each committed barrier.
func TestModel(t *testing.T) { rapid.Check(t, propertyModel(false, state.New)) }

// TestModelConcurrent has the encoder run beside the owner.
func TestModelConcurrent(t *testing.T) { rapid.Check(t, propertyModel(true, state.New)) }

// FuzzModel lets the fuzzer choose the operations of TestModel.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(propertyModel(false, state.New))) }

// TestRule15_ForgottenDirtyListIsFound: the model must find the planted fault.
func TestRule15_ForgottenDirtyListIsFound(t *testing.T) {
	m := newModel(value(0, 0), state.New)
	m.table.ForgetDirty()
	found := &recorder{}
	m.table.Lock()
	defer m.table.Unlock()
	for i := range 10 {
		k := [2]string{fmt.Sprint("key", i), ""}
		_ = m.table.Put([]byte(k[0]), []byte("v"))
		m.m[k] = modelEntry{val: "v"}
		m.out = append(m.out, pending{f: m.table.Freeze(), content: maps.Clone(m.m)})
		if i == 4 {
			m.abort(0, m.table.Unlock, m.table.Lock)
			continue
		}
		m.commit(found, m.table.Unlock, m.table.Lock)
	}
	if found.n == 0 {
		t.Error("the model does not find a forgotten dirty list")
	}
}

// recorder counts failures instead of ending the test.
type recorder struct{ n int }

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.n++ }
