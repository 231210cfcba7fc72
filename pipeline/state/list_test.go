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

func listed(ttl int64, maxKeys int) state.Spec {
	return state.Spec{Name: "t", Kind: state.List, Type: "test", Version: 1, TTL: ttl, MaxKeys: maxKeys}
}

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

// TestDeltaOfAGrowingListHasItsNewElements: what a checkpoint writes does not grow with the list.
func TestDeltaOfAGrowingListHasItsNewElements(t *testing.T) {
	table := state.New(listed(0, 0))
	elem := bytes.Repeat([]byte("e"), 100)
	for checkpoint := range 100 {
		n := 1 + checkpoint%7
		for range n {
			_ = table.Append([]byte("a list"), elem)
		}
		f := table.Freeze()
		written := 0
		for k, c := range encode(t, f) {
			written += len(k[0]) + len(k[1]) + len(c.val)
		}
		f.Commit()
		chunks := (n + 3) / 4 // 5 elements would be 505 bytes with their lengths: 512 take 5
		if most := n*(len(elem)+1) + chunks*(len("a list")+8); written > most {
			t.Fatalf("checkpoint %d: %d new elements, %d bytes written, want at most %d; the list has %d", checkpoint, n, written, most, table.ListLen([]byte("a list")))
		}
	}
	for range 20 { // a drop at the front rewrites one chunk at most, and names those that are gone
		table.DropFront([]byte("a list"), 1)
		f := table.Freeze()
		written := 0
		for _, c := range encode(t, f) {
			written += len(c.val)
		}
		f.Commit()
		if written > 512 {
			t.Fatalf("a drop writes %d bytes", written)
		}
	}
	check(t, table)
}

// TestAppendingCopiesNothing: a chunk that a checkpoint has is left alone, so there are no old versions to keep.
func TestAppendingCopiesNothing(t *testing.T) {
	table := state.New(listed(0, 0))
	key := []byte("a list")
	for range 10_000 {
		_ = table.Append(key, make([]byte, 40))
	}
	f := table.Freeze()
	_ = table.Append(key, make([]byte, 40))
	if n := state.ArenaBytes(f); n != 0 {
		t.Errorf("%d bytes of old versions", n)
	}
	f.Commit()
	elem := make([]byte, 40)
	if n := testing.AllocsPerRun(20_000, func() { _ = table.Append(key, elem) }); n > 0 {
		t.Errorf("%v allocations per element", n)
	}
}

func FuzzListLoad(f *testing.F) {
	f.Add([]byte("k"), []byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte{1, 'a', 0, 2, 'b', 'c'}, true)
	f.Add([]byte(""), []byte{}, []byte{0x80, 0x00}, false)
	f.Fuzz(func(t *testing.T, key, sub, val []byte, ttl bool) {
		spec := listed(0, 0)
		if ttl {
			spec.TTL = 10
		}
		table := state.New(spec)
		if err := table.Load(key, sub, val); err != nil {
			if !errors.Is(err, state.ErrEntry) || table.Len() != 0 {
				t.Fatalf("%v, and %d lists", err, table.Len())
			}
			return
		}
		check(t, table)
		var all [][]byte
		table.RangeList(key, func(e []byte) bool { all = append(all, bytes.Clone(e)); return true })
		if err := table.Append(key, []byte("next")); err != nil {
			t.Fatal(err)
		}
		if n := table.ListLen(key); n != len(all)+1 {
			t.Fatalf("%d elements, want %d", n, len(all)+1)
		}
		table.DropFront(key, len(all))
		check(t, table)
	})
}

// TestListLoadCutAndFlipped: a chunk cut at any byte is refused or has fewer elements, never read beyond.
func TestListLoadCutAndFlipped(t *testing.T) {
	val := []byte("\x03abc\x00\x82\x01" + string(bytes.Repeat([]byte("x"), 130)))
	sub := make([]byte, 8)
	load := func(val []byte) int {
		table := state.New(listed(0, 0))
		if err := table.Load([]byte("k"), sub, val); err != nil {
			return -1
		}
		check(t, table)
		return table.ListLen([]byte("k"))
	}
	if n := load(val); n != 3 {
		t.Fatalf("%d elements, want 3", n)
	}
	for n := range val {
		if got := load(val[:n]); got >= 3 {
			t.Errorf("cut at %d: %d elements", n, got)
		}
		for bit := range 8 {
			b := bytes.Clone(val)
			b[n] ^= 1 << bit
			load(b)
		}
	}
}

// BenchmarkAppend is the cost of an element beside that of a Put of the same size.
func BenchmarkAppend(b *testing.B) {
	elem := make([]byte, 24)
	b.Run("list", func(b *testing.B) {
		table := state.New(listed(0, 0))
		b.ReportAllocs()
		var key [2]byte
		for i := 0; b.Loop(); i++ {
			key[0], key[1] = byte(i), byte(i>>8)
			_ = table.Append(key[:], elem)
		}
	})
	b.Run("put", func(b *testing.B) {
		table := state.New(value(0, 0))
		b.ReportAllocs()
		var key [2]byte
		for i := 0; b.Loop(); i++ {
			key[0], key[1] = byte(i), byte(i>>8)
			_ = table.Put(key[:], elem)
		}
	})
}

// TestListsSurviveCompaction: records move when many lists go, and the links between chunks hold.
func TestListsSurviveCompaction(t *testing.T) {
	table := state.New(listed(0, 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "list %d", i) }
	for round := range 8 {
		for i := range 2000 {
			_ = table.Append(key(i), fmt.Appendf(nil, "%d/%d/%s", i, round, bytes.Repeat([]byte("x"), 100)))
		}
		table.Freeze().Commit() // the next round begins new chunks
	}
	_, _, before := table.SlabBytes()
	for i := range 2000 {
		if i%10 != 0 {
			table.Delete(key(i))
		}
	}
	table.Freeze().Commit()
	for range 5000 {
		_ = table.Append([]byte("other"), []byte("x"))
		table.DropFront([]byte("other"), 1)
	}
	check(t, table)
	if _, _, after := table.SlabBytes(); after > before/3 {
		t.Errorf("memory is %d, was %d", after, before)
	}
	for i := 0; i < 2000; i += 10 {
		round := 0
		table.RangeList(key(i), func(e []byte) bool {
			if want := fmt.Sprintf("%d/%d/", i, round); !bytes.HasPrefix(e, []byte(want)) {
				t.Fatalf("%.20s, want %s", e, want)
			}
			round++
			return true
		})
		if round != 8 {
			t.Fatalf("list %d has %d elements", i, round)
		}
	}
}

// TestListThatGetsATTL: the time of lists saved without one begins with the first SetNow, and they are dirty.
func TestListThatGetsATTL(t *testing.T) {
	table := state.New(listed(10, 0))
	for n := range uint64(3) {
		if err := table.LoadFrom(listed(0, 0), []byte("k"), []byte{0, 0, 0, 0, 0, 0, 0, byte(9 - n)}, []byte{1, byte('c' - n)}); err != nil {
			t.Fatal(err)
		}
	}
	table.SetNow(100)
	got := ""
	table.RangeList([]byte("k"), func(e []byte) bool { got += string(e); return true })
	if got != "abc" || table.Len() != 1 {
		t.Errorf("%q, %d lists", got, table.Len())
	}
	f := table.Freeze()
	if f.Len() != 3 {
		t.Errorf("%d changes, want all 3 chunks", f.Len())
	}
	f.Commit()
	table.SetNow(109)
	if table.ListLen([]byte("k")) != 3 {
		t.Error("expired early")
	}
	table.SetNow(110)
	if table.ListLen([]byte("k")) != 0 || table.Len() != 0 {
		t.Error("not expired")
	}
	check(t, table)
}

// TestMaxKeysOfListsOverInstances is one limit, on lists and not on their elements.
func TestMaxKeysOfListsOverInstances(t *testing.T) {
	a, b := state.New(listed(0, 2)), state.New(listed(0, 2))
	limit := state.NewLimit([]*state.Table{a, b})
	limit.Together()
	if a.Append([]byte("x"), nil) != nil || b.Append([]byte("y"), nil) != nil || a.Append([]byte("x"), nil) != nil {
		t.Fatal("two lists do not fit")
	}
	if err := b.Append([]byte("z"), nil); !errors.Is(err, state.ErrMaxKeys) {
		t.Fatalf("a third list: %v", err)
	}
	a.DropFront([]byte("x"), 2)
	if err := b.Append([]byte("z"), nil); err != nil {
		t.Fatalf("a list is gone, and yet: %v", err)
	}
}
