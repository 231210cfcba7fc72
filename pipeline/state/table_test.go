package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

func value(ttl int64, maxKeys int) state.Spec {
	return state.Spec{Name: "t", Kind: state.Value, Type: "test", Version: 1, TTL: ttl, MaxKeys: maxKeys}
}

func mapped(ttl int64) state.Spec {
	return state.Spec{Name: "t", Kind: state.Map, Type: "test", Version: 1, TTL: ttl}
}

// delta is what a Frozen yields: encoded values, "" with ok false in the map for a tombstone.
type change struct {
	val     string
	deleted bool
}

func encode(t interface {
	Helper()
	Fatal(...any)
}, f *state.Frozen, atMost ...bool) map[[2]string]change {
	t.Helper()
	got := map[[2]string]change{}
	err := f.Encode(func(key, sub, val []byte, deleted bool) error {
		k := [2]string{string(key), string(sub)}
		if _, twice := got[k]; twice {
			return fmt.Errorf("key %q comes twice", k)
		}
		got[k] = change{string(val), deleted}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != f.Len() && (len(atMost) == 0 || len(got) > f.Len()) {
		t.Fatal("encoded ", len(got), " entries, Len tells ", f.Len())
	}
	return got
}

func check(t testing.TB, table *state.Table) {
	t.Helper()
	if msg := table.Check(); msg != "" {
		t.Fatal(msg)
	}
}

func TestUpsertResizesAndZeroes(t *testing.T) {
	table := state.New(value(0, 0))
	b, created, err := table.Upsert([]byte("k"), 4)
	if err != nil || !created || !bytes.Equal(b, make([]byte, 4)) {
		t.Fatal(b, created, err)
	}
	copy(b, "abcd")
	for _, n := range []int{3, 8, 200, 100_000, 5, 0, 9} {
		b, created, err = table.Upsert([]byte("k"), n)
		if err != nil || created || len(b) != n {
			t.Fatal(n, len(b), created, err)
		}
		kept := min(n, 3)
		if n == 9 {
			kept = 0
		}
		if want := append([]byte("abc")[:kept:kept], make([]byte, n-kept)...); !bytes.Equal(b, want) {
			t.Fatalf("size %d: %q", n, b[:min(n, 10)])
		}
		check(t, table)
	}
	table.Delete([]byte("k"))
	if b, created, _ = table.Upsert([]byte("k"), 3); !created || string(b) != "\x00\x00\x00" {
		t.Fatalf("after a delete: %q, created %v", b, created)
	}
}

func TestRefStaysWhileRecordsMove(t *testing.T) {
	table := state.New(value(0, 0))
	var refs []state.Ref
	for i := range 5000 {
		b, ref, _, err := table.UpsertRef(fmt.Appendf(nil, "key%d", i), 50)
		if err != nil {
			t.Fatal(err)
		}
		copy(b, fmt.Sprint(i))
		refs = append(refs, ref)
	}
	for i := 0; i < 5000; i += 2 {
		if _, ref, _, _ := table.UpsertRef(fmt.Appendf(nil, "key%d", i), 500); ref != refs[i] {
			t.Fatal("the number of an entry changed")
		}
	}
	for i, ref := range refs {
		key, val := table.At(ref)
		if string(key) != fmt.Sprint("key", i) || !strings.HasPrefix(string(val), fmt.Sprint(i)+"\x00") {
			t.Fatalf("entry %d: %q %q", i, key, val)
		}
	}
	table.Delete([]byte("key7"))
	if key, _ := table.At(refs[7]); key != nil {
		t.Fatal("a deleted entry is there")
	}
	check(t, table)
}

func TestMaxKeysCountsWhatIsThere(t *testing.T) {
	table := state.New(value(10, 2))
	put := func(k string) error { return table.Put([]byte(k), []byte("v")) }
	table.SetNow(1)
	if put("a") != nil || put("b") != nil {
		t.Fatal("two keys do not fit")
	}
	if err := put("c"); !errors.Is(err, state.ErrMaxKeys) || table.Len() != 2 {
		t.Fatal(err, table.Len())
	}
	table.SetNow(5)
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	table.SetNow(10)
	if err := put("c"); !errors.Is(err, state.ErrMaxKeys) {
		t.Fatal("b is there until 11", err)
	}
	table.SetNow(11)
	if _, ok := table.Get([]byte("b")); ok || table.Len() != 1 {
		t.Fatal("b is there", table.Len())
	}
	if err := put("c"); err != nil {
		t.Fatal(err)
	}
	table.Delete([]byte("a"))
	if err := put("b"); err != nil {
		t.Fatal(err)
	}
	if table.SetNow(3); table.Len() != 2 {
		t.Fatal("time went back")
	}
	check(t, table)
}

func TestExpiredMemoryComesBack(t *testing.T) {
	table := state.New(value(100, 0))
	for i := range 20_000 {
		table.SetNow(int64(i))
		if err := table.Put(fmt.Appendf(nil, "key%d", i), make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		if i >= 100 && table.Len() != 100 {
			t.Fatalf("at %d: %d entries", i, table.Len())
		}
		if i%100 == 99 {
			table.Freeze().Commit()
		}
	}
	check(t, table)
	if _, all := table.Tombstones(); all > 500 {
		t.Errorf("%d entries are held for 100", all)
	}
	if _, _, mem := table.SlabBytes(); mem > 5*128<<10 {
		t.Errorf("%d bytes of records are held for 100 entries", mem)
	}
}

func TestRangeSubIsInByteOrder(t *testing.T) {
	table := state.New(mapped(0))
	for _, s := range []string{"b", "", "a\x00", "\xff", "a"} {
		if err := table.PutSub([]byte("k"), []byte(s), []byte("v"+s)); err != nil {
			t.Fatal(err)
		}
		if err := table.PutSub([]byte("k2"), []byte(s), []byte("w")); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	table.RangeSub([]byte("k"), func(sub, val []byte) bool {
		got = append(got, string(sub))
		return string(val) == "v"+string(sub)
	})
	if !slices.Equal(got, []string{"", "a", "a\x00", "b", "\xff"}) {
		t.Fatalf("%q", got)
	}
	check(t, table)
	if !table.Delete([]byte("k")) || table.Delete([]byte("k")) || table.Len() != 5 {
		t.Fatal("delete of a key", table.Len())
	}
	check(t, table)
	f := table.Freeze()
	if d := encode(t, f); len(d) != 10 || !d[[2]string{"k", "b"}].deleted {
		t.Fatal(d)
	}
	f.Commit()
	if dead, all := table.Tombstones(); dead != 0 || all != 5 {
		t.Fatal(dead, all)
	}
}

// TestRule15_AbortGivesChangesAndTombstonesBack: also when a later checkpoint is already frozen, which fails with it.
func TestRule15_AbortGivesChangesAndTombstonesBack(t *testing.T) {
	run := func(plant bool) map[[2]string]change {
		table := state.New(value(0, 0))
		if plant {
			table.ForgetDirty()
		}
		put := func(k, v string) { _ = table.Put([]byte(k), []byte(v)) }
		put("gone", "1")
		put("same", "1")
		table.Freeze().Commit()
		put("changed", "1")
		put("twice", "1")
		table.Delete([]byte("gone"))
		one := table.Freeze()
		put("twice", "2")
		put("later", "2")
		two := table.Freeze()
		put("open", "3")
		if !plant {
			encode(t, one)
		}
		one.Abort()
		if err := two.Encode(func(_, _, _ []byte, _ bool) error { return nil }); !plant && !errors.Is(err, state.ErrAborted) {
			t.Error("a checkpoint behind an aborted one can be encoded", err)
		}
		two.Commit()
		two.Abort()
		check(t, table)
		three := table.Freeze()
		got := encode(t, three)
		three.Commit()
		if dead, _ := table.Tombstones(); dead != 0 && !plant {
			t.Error("tombstones are left")
		}
		return got
	}
	got, want := run(false), map[[2]string]change{
		{"gone"}: {"", true}, {"changed"}: {"1", false}, {"twice"}: {"2", false}, {"later"}: {"2", false}, {"open"}: {"3", false},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the next checkpoint has %v, want %v", got, want)
	}
	if bad := run(true); fmt.Sprint(bad) == fmt.Sprint(want) {
		t.Error("a forgotten dirty list is not found")
	}
}

func TestEncodeSeesTheBarrier(t *testing.T) {
	table := state.New(value(0, 0))
	for i := range 1000 {
		_ = table.Put(fmt.Appendf(nil, "k%d", i), []byte("old"))
	}
	_ = table.Put([]byte("big"), bytes.Repeat([]byte("o"), 300_000))
	f := table.Freeze()
	n := 0
	err := f.Encode(func(key, _, val []byte, deleted bool) error {
		if n == 100 { // between two holds: everything changes
			table.Lock()
			for i := range 1000 {
				switch i % 3 {
				case 0:
					_ = table.Put(fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte("new"), 1+i%7))
				case 1:
					table.Delete(fmt.Appendf(nil, "k%d", i))
				}
			}
			b, _, _ := table.Upsert([]byte("big"), 300_000)
			clear(b)
			table.Unlock()
		}
		n++
		if deleted || len(bytes.Trim(val, "o")) > 0 && string(val) != "old" {
			return fmt.Errorf("%s is %.10q", key, val)
		}
		return nil
	})
	if err != nil || n != 1001 || f.Len() != 1001 {
		t.Fatal(err, n, f.Len())
	}
	if err := f.Encode(nil); !errors.Is(err, state.ErrEncoded) {
		t.Fatal(err)
	}
	f.Commit()
	g := table.Freeze()
	if d := encode(t, g); len(d) != 334+333+1 {
		t.Fatal(len(d))
	}
	check(t, table)
}

func TestLoadRefusesWhatEncodeCannotMake(t *testing.T) {
	table := state.New(value(10, 0))
	for name, err := range map[string]error{
		"short":  table.Load([]byte("k"), nil, []byte("1234567")),
		"subkey": table.Load([]byte("k"), []byte("s"), make([]byte, 8)),
	} {
		if !errors.Is(err, state.ErrEntry) {
			t.Error(name, err)
		}
	}
	if err := table.Load([]byte("k"), nil, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if err := table.Load([]byte("k"), nil, make([]byte, 8)); !errors.Is(err, state.ErrEntry) {
		t.Error("twice", err)
	}
}

func TestLoadFromAnotherTTL(t *testing.T) {
	table := state.New(value(10, 0))
	_ = table.LoadFrom(value(0, 0), []byte("k"), nil, []byte("v"))
	table.SetNow(1000)
	if v, ok := table.Get([]byte("k")); !ok || string(v) != "v" {
		t.Fatal("an entry without time is not taken as fresh")
	}
	d := encode(t, table.Freeze())
	if table.SetNow(1010); table.Len() != 0 {
		t.Fatal("it does not expire")
	}
	back := state.New(value(0, 0))
	if err := back.LoadFrom(value(10, 0), []byte("k"), nil, []byte(d[[2]string{"k"}].val)); err != nil {
		t.Fatal(err)
	}
	if v, _ := back.Get([]byte("k")); string(v) != "v" {
		t.Fatalf("%q", v)
	}
}
