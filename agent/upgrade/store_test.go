package upgrade

import (
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

func saved(t *testing.T, s Store, r Record) {
	t.Helper()
	if err := s.Save(&r); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsTheNewest(t *testing.T) {
	s := Store{FS: disk.OS, Dir: t.TempDir() + "/upgrade"}
	if r, err := s.Load(); err != nil || r.State != Idle {
		t.Fatal(r, err)
	}
	var r Record
	for i, e := range toCommit {
		r = walk(t, r, e)
		saved(t, s, r)
		got, err := s.Load()
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
	}
}

// crashStates gives how many states after a power cut hold neither the last record that Save or Load gave away nor the one behind it, whole. wrap plants a fault.
func crashStates(t *testing.T, wrap func(disk.FS) disk.FS) (wrong, states int) {
	m := disktest.NewMem()
	s := Store{FS: wrap(m), Dir: "/u"}
	var acked, writing Record
	c := disktest.Crasher{Seed: 1}
	salt := uint64(0)
	check := func(string) {
		c.Images(m, salt, func(img *disktest.Mem) {
			got, err := Store{FS: img, Dir: "/u"}.Load()
			if err != nil || !reflect.DeepEqual(got, acked) && !reflect.DeepEqual(got, writing) {
				wrong++
			}
		})
	}
	m.OnOp(check)
	r := Record{}
	for _, e := range append(append([]Event{}, toProbation...), Event{Kind: Counted, Booted: SlotA}, Event{Kind: Went, Cause: CauseProbation, Why: "it went"}) {
		r = walk(t, r, e)
		r.Format, r.Target.Version = recordFormat, strings.Repeat("v", 3000) // over several sectors: it can tear
		writing = r
		saved(t, s, r)
		acked, salt = r, salt+1
		check("")
		if _, err := s.Load(); err != nil {
			t.Fatal(err)
		}
	}
	return wrong, c.Distinct()
}

// noSync is a planted fault: files, or directories, are not synced.
type noSync struct {
	disk.FS
	names bool
}

type unsynced struct{ disk.File }

func (unsynced) Sync() error { return nil }

func (n noSync) SyncDir(dir string) error {
	if n.names {
		return nil
	}
	return n.FS.SyncDir(dir)
}

func (n noSync) Open(name string) (disk.File, error) {
	f, err := n.FS.Open(name)
	if err == nil && !n.names {
		f = unsynced{f}
	}
	return f, err
}

// TestStoreCrashStates: every legal state of loss and tear holds one of the two records.
func TestStoreCrashStates(t *testing.T) {
	if wrong, states := crashStates(t, func(f disk.FS) disk.FS { return f }); wrong > 0 || states < 80 {
		t.Errorf("%d of %d states are wrong", wrong, states)
	}
	for _, names := range []bool{false, true} {
		if wrong, _ := crashStates(t, func(f disk.FS) disk.FS { return noSync{f, names} }); wrong == 0 {
			t.Errorf("a missing sync is not found (names: %v)", names)
		}
	}
}

// TestLoadMakesDurable: a process was killed between write and sync. What the next one was given outlives a power cut, and so does what it saves.
func TestLoadMakesDurable(t *testing.T) {
	m := disktest.NewMem()
	r := walk(t, Record{}, toStaged...)
	saved(t, Store{FS: m, Dir: "/u"}, r)
	n := walk(t, r, Event{Kind: Ready})
	if err := (Store{FS: noSync{m, false}, Dir: "/u"}).Save(&n); err != nil {
		t.Fatal(err)
	}
	s := Store{FS: m, Dir: "/u"}
	got, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
		if after, err := (Store{FS: img, Dir: "/u"}).Read(); err != nil || !reflect.DeepEqual(after, got) {
			t.Fatalf("%+v, %v", after, err)
		}
	})
}

// TestStoreBothDamaged: nothing is guessed; one alone is enough.
func TestStoreBothDamaged(t *testing.T) {
	m := disktest.NewMem()
	s := Store{FS: m, Dir: "/u"}
	r := walk(t, Record{}, toStaged...)
	saved(t, s, r)
	saved(t, s, r)
	m.Flip("/u/rec.1", 40, 3)
	if got, err := s.Load(); err != nil || got.State != Staged {
		t.Fatal(got, err)
	}
	m.Flip("/u/rec.0", 40, 3)
	if _, err := s.Load(); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if err := s.Save(&r); !errors.Is(err, ErrDamaged) {
		t.Errorf("it was written over: %v", err)
	}
}

// TestStoreNewerIsNotDamaged: and it is never written over.
func TestStoreNewerIsNotDamaged(t *testing.T) {
	m := disktest.NewMem()
	s := Store{FS: m, Dir: "/u"}
	r := walk(t, Record{}, toStaged...)
	b, err := encodeRecord(&r, 9)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b[4:], 2)
	binary.LittleEndian.PutUint32(b[20:], sum(b))
	saved(t, s, r)
	if err := s.write(1, b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if err := s.Save(&r); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

// TestStoreFailedSync: the record that is durable is not written over when the sync of the next one fails, however often.
func TestStoreFailedSync(t *testing.T) {
	m := disktest.NewMem()
	s := Store{FS: m, Dir: "/u"}
	r := walk(t, Record{}, toStaged...)
	saved(t, s, r)
	n := walk(t, r, Event{Kind: Ready})
	for range 3 {
		m.FailSyncs(1)
		if err := s.Save(&n); err == nil {
			t.Fatal("no error")
		}
		(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
			if got, err := (Store{FS: img, Dir: "/u"}).Load(); err != nil || got.State != Staged && got.State != Draining {
				t.Fatal(got.State, err)
			}
		})
	}
	saved(t, s, n)
	if got, err := s.Load(); err != nil || got.State != Draining {
		t.Error(got.State, err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	r := Record{}
	for _, e := range toCommit {
		r, _ = Next(r, e)
		b, err := encodeRecord(&r, 5)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, seq, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := encodeRecord(&r, seq)
		if err != nil {
			t.Fatal(err)
		}
		if got, n, err := decodeRecord(again); err != nil || n != seq || !reflect.DeepEqual(got, normal(r)) {
			t.Fatalf("%+v\n%+v, %v", got, r, err)
		}
	})
}

// normal is what a record is once it was written: empty lists are none.
func normal(r Record) Record {
	r.Format = recordFormat
	for _, l := range []*[]string{&r.Away, &r.Rejected} {
		if len(*l) == 0 {
			*l = nil
		}
	}
	if len(r.Savings) == 0 {
		r.Savings = nil
	}
	for i := range r.Savings {
		if len(r.Savings[i].Ends) == 0 {
			r.Savings[i].Ends = nil
		}
	}
	return r
}

// TestEveryBitAndEveryLength: a record that is cut short or has one bit wrong is none.
func TestEveryBitAndEveryLength(t *testing.T) {
	r := walk(t, Record{}, toSaved...)
	b, err := encodeRecord(&r, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if _, _, err := decodeRecord(b[:i]); err == nil {
			t.Fatalf("%d bytes are taken for a record", i)
		}
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, _, err := decodeRecord(b); err == nil {
				t.Fatalf("bit %d of byte %d", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
}

// TestARecordThatIsNoFile does not mend itself: whoever starts says so and stands, and is not started for ever. A link that leads nowhere is nothing.
func TestARecordThatIsNoFile(t *testing.T) {
	for _, i := range []int{0, 1} {
		for what, put := range map[string]func(name string) error{
			"pipe":      func(name string) error { return unix.Mkfifo(name, 0o600) },
			"directory": func(name string) error { return os.Mkdir(name, 0o700) },
			"loop":      func(name string) error { return os.Symlink(name, name) },
		} {
			s := Store{FS: disk.OS, Dir: t.TempDir()}
			r := walk(t, Record{}, toCommit[0])
			saved(t, s, r)
			saved(t, s, r)
			if err := errors.Join(os.Remove(s.name(i)), put(s.name(i))); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), s.name(i)) {
				t.Errorf("%s for rec.%d: %v", what, i, err)
			}
		}
		s := Store{FS: disk.OS, Dir: t.TempDir()}
		r := walk(t, Record{}, toCommit[0])
		saved(t, s, r)
		saved(t, s, r)
		if err := errors.Join(os.Remove(s.name(i)), os.Symlink("/gone/for/good", s.name(i))); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			saved(t, s, r)
		}
		if got, err := s.Load(); err != nil || got.State != r.State {
			t.Errorf("a link to nowhere for rec.%d: %+v, %v", i, got, err)
		}
	}
}
