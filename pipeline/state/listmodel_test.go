package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// listModel is a List table as slices, and what its checkpoints must make of it.
type listModel struct {
	make  func(state.Spec) *state.Table
	spec  state.Spec
	table *state.Table
	now   int64
	m     lists
	out   []listPending
	base  map[[2]string]string // chunks on flash
}

type lists map[string][]modelEntry

type listPending struct {
	pending
	content lists
}

func newListModel(spec state.Spec, table func(state.Spec) *state.Table) *listModel {
	return &listModel{make: table, spec: spec, table: table(spec), m: lists{}, base: map[[2]string]string{}}
}

func (l lists) clone() lists {
	c := lists{}
	for k, v := range l {
		c[k] = slices.Clone(v)
	}
	return c
}

// advance drops what expires: elements one by one.
func (m *listModel) advance(to int64) {
	m.now = to
	m.table.SetNow(to)
	for k, all := range m.m {
		m.set(k, slices.DeleteFunc(all, func(e modelEntry) bool { return m.spec.TTL > 0 && m.now-e.stamp >= m.spec.TTL }))
	}
}

func (m *listModel) set(key string, all []modelEntry) {
	if m.m[key] = all; len(all) == 0 {
		delete(m.m, key)
	}
}

func (m *listModel) verify(t fataler) {
	t.Helper()
	if m.table.Len() != len(m.m) {
		t.Fatalf("Len is %d, want %d", m.table.Len(), len(m.m))
	}
	got := lists{}
	m.table.Range(func(key, sub, val []byte) bool {
		if sub != nil {
			t.Fatalf("an element has the subkey %x", sub)
		}
		got[string(key)] = append(got[string(key)], modelEntry{val: string(val)})
		return true
	})
	for k, want := range m.m {
		if n := m.table.ListLen([]byte(k)); n != len(want) {
			t.Fatalf("%s: ListLen is %d, want %d", k, n, len(want))
		}
		if !slices.EqualFunc(got[k], want, func(a, b modelEntry) bool { return a.val == b.val }) {
			t.Fatalf("%s: %d elements %.60v, want %d %.60v", k, len(got[k]), got[k], len(want), want)
		}
	}
	if len(got) != len(m.m) {
		t.Fatalf("%d lists, want %d", len(got), len(m.m))
	}
	if msg := m.table.Check(); msg != "" {
		t.Fatalf("%s", msg)
	}
}

func (m *listModel) commit(t fataler, unlock, lock func()) {
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

// restored loads what is on flash, in any order, and expects the table as it was at the barrier.
func (m *listModel) restored(t fataler, p listPending) {
	t.Helper()
	back := &listModel{make: m.make, spec: m.spec, table: m.make(m.spec), m: p.content.clone(), now: p.now}
	for k, v := range m.base {
		if err := back.table.Load([]byte(k[0]), []byte(k[1]), []byte(v)); err != nil {
			t.Fatalf("load: %v", err)
		}
	}
	f := back.table.Freeze() // before the clock goes on: that frees what has expired
	if f.Len() != 0 {
		t.Fatalf("a restored table has %d changes", f.Len())
	}
	f.Commit()
	back.advance(p.now)
	back.verify(t)
	back.advance(p.now + m.spec.TTL/2)
	back.verify(t)
}

func (m *listModel) abort(i int, unlock, lock func()) {
	unlock()
	m.out[i].f.Abort()
	for _, p := range m.out[i:] {
		if p.done != nil {
			<-p.done
		}
		p.f.Abort()
	}
	lock()
	m.out = m.out[:i]
}

func (m *listModel) freeze() {
	m.out = append(m.out, listPending{pending{f: m.table.Freeze(), now: m.now, large: m.table.Large()}, m.m.clone()})
}

func (m *listModel) step(t *rapid.T, beside bool) {
	pick := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
	k := fmt.Sprint("key", pick("key", 8))
	key := []byte(k)
	unlock, lock := m.table.Unlock, m.table.Lock
	switch op := pick("op", 20); op {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		v := bytes.Repeat([]byte{byte('a' + pick("letter", 26))}, []int{0, 1, 9, 60, 130, 600, 40_000}[pick("size", 7)])
		full := m.spec.MaxKeys > 0 && len(m.m) >= m.spec.MaxKeys && len(m.m[k]) == 0
		if err := m.table.Append(key, v); (err != nil) != full || err != nil && !errors.Is(err, state.ErrMaxKeys) {
			t.Fatalf("append: %v, want full %v", err, full)
		} else if err == nil {
			m.m[k] = append(m.m[k], modelEntry{string(v), m.now})
		}
	case 8, 9, 10:
		n := []int{0, 1, 1, 2, 5, 1000}[pick("drop", 6)]
		want := min(n, len(m.m[k]))
		if got := m.table.DropFront(key, n); got != want {
			t.Fatalf("drop of %d removes %d, want %d", n, got, want)
		}
		m.set(k, m.m[k][want:])
	case 11:
		if got := m.table.Delete(key); got != (len(m.m[k]) > 0) {
			t.Fatalf("delete tells %v", got)
		}
		delete(m.m, k)
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
}

func propertyLists(beside bool, table func(state.Spec) *state.Table) func(*rapid.T) {
	return func(t *rapid.T) {
		m := newListModel(listed(rapid.SampledFrom([]int64{0, 5, 50}).Draw(t, "ttl"), rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "maxKeys")), table)
		m.table.Lock()
		defer m.table.Unlock()
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			m.step(t, beside)
			if beside && len(m.out) > 0 {
				m.table.Unlock()
				m.table.Lock()
			}
			if !beside {
				m.verify(t)
			}
		}
		for len(m.out) > 0 {
			m.commit(t, m.table.Unlock, m.table.Lock)
		}
		m.freeze()
		m.commit(t, m.table.Unlock, m.table.Lock)
		m.verify(t)
		if dead, _ := m.table.Tombstones(); dead != 0 {
			t.Fatalf("%d tombstones are held", dead)
		}
	}
}

// TestListModel: the lists are the model's at every step, and base and deltas give them at each committed barrier.
func TestListModel(t *testing.T) { rapid.Check(t, propertyLists(false, state.New)) }

// TestListModelConcurrent has the encoder run beside the owner.
func TestListModelConcurrent(t *testing.T) { rapid.Check(t, propertyLists(true, state.New)) }

// FuzzListModel lets the fuzzer choose the operations.
func FuzzListModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(propertyLists(false, state.New))) }

// TestPlantedListFaultsAreFound: the model must find a forgotten abort, and elements that slip into a checkpoint's chunk.
func TestPlantedListFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]func(*state.Table){"": nil, "forgotten abort": (*state.Table).ForgetDirty, "held chunk": (*state.Table).AppendHeld} {
		m := newListModel(listed(0, 0), state.New)
		if plant != nil {
			plant(m.table)
		}
		found := &recorder{}
		m.table.Lock()
		for i := range 10 {
			_ = m.table.Append([]byte("k"), []byte{byte(i)})
			m.m["k"] = append(m.m["k"], modelEntry{val: string([]byte{byte(i)})})
			m.freeze()
			_ = m.table.Append([]byte("k"), []byte{byte(i + 100)})
			m.m["k"] = append(m.m["k"], modelEntry{val: string([]byte{byte(i + 100)})})
			if i == 4 {
				m.abort(0, m.table.Unlock, m.table.Lock)
				continue
			}
			m.commit(found, m.table.Unlock, m.table.Lock)
		}
		m.table.Unlock()
		if (found.n > 0) != (plant != nil) {
			t.Errorf("%q: %d failures", name, found.n)
		}
	}
}
