package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

func listed(ttl int64, maxKeys int) state.Spec {
	return state.Spec{Name: "t", Kind: state.List, Type: "test", Version: 1, TTL: ttl, MaxKeys: maxKeys}
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
