package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

func small() log.Config {
	c := log.Default()
	c.SegmentBytes, c.MaxBytes, c.ReserveBytes = 8<<10, 1<<20, 0
	c.Linger, c.MaxUnsynced, c.TailBytes, c.Compress, c.SpareSegments = 0, 64<<10, 4<<10, false, 100
	return c
}

func mustOpen(t testing.TB, o Options) (*Journal, *Recovery) {
	t.Helper()
	o.Dir = "/journal"
	if o.SegmentBytes == 0 {
		o.Config = small()
	}
	j, rec, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return j, rec
}

func fill(t testing.TB, j *Journal, n, size int) {
	t.Helper()
	for range n {
		if _, err := j.Append(entry(int(j.Last())+1, size)); err != nil {
			t.Fatal(err)
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAppendAll: more than may be unsynced at once, in one call; the entry that is too large ends it.
func TestAppendAll(t *testing.T) {
	j, _ := mustOpen(t, Options{FS: disktest.NewMem(), Config: small()})
	defer j.Close()
	var es []pipeline.Entry
	for n := range 300 {
		es = append(es, *entry(n, n*3))
	}
	es[299].Payload = make([]byte, log.RecordBytesMax)
	n, err := j.AppendAll(es)
	if n != 299 || !errors.Is(err, log.ErrTooLarge) || j.Last() != 299 {
		t.Fatalf("%d appended, last %d, %v", n, j.Last(), err)
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Scan(0, func(e *pipeline.Entry) error {
		if want := &es[e.Pos-1]; !same(want, e) || want.Pos != e.Pos {
			t.Errorf("entry %d is %v, want %v", e.Pos, e, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAppendReadScan(t *testing.T) {
	m := disktest.NewMem()
	stamp := pipeline.Stamp{Elapsed: 1, Wall: 2, Trusted: true}
	j, _ := mustOpen(t, Options{FS: m, Stamp: func() pipeline.Stamp { return stamp }})
	fill(t, j, 60, 300)
	check := func() {
		t.Helper()
		r, err := j.Reader(1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		want := pipeline.Position(1)
		for want <= j.Last() {
			b, err := r.Next(t.Context())
			if err != nil || b.First != want || int(b.Last-b.First)+1 != len(b.Entries) {
				t.Fatal(err, b)
			}
			for i := range b.Entries {
				e := &b.Entries[i]
				if e.Pos != want || e.Stamp != stamp || !same(e, entry(int(want), 300)) {
					t.Fatalf("entry %d is %+v", want, e)
				}
				want++
			}
		}
		n := pipeline.Position(20)
		if err := j.Scan(n, func(e *pipeline.Entry) error {
			if e.Pos != n || !same(e, entry(int(n), 300)) {
				return fmt.Errorf("entry %d is %+v", n, e)
			}
			n++
			return nil
		}); err != nil || n != 61 {
			t.Fatal(err, n)
		}
	}
	check()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, _ = mustOpen(t, Options{FS: m, Stamp: func() pipeline.Stamp { return stamp }})
	defer j.Close()
	check()
}

// TestRule11_HoldersKeepTheJournal: the lowest holder decides; without one everything is kept (checkpoint 0 holds too).
// TestScanBack: newest first, of some kinds, until it is enough; from memory and from flash, over what was trimmed and left out.
func TestScanBack(t *testing.T) {
	m := disktest.NewMem()
	j, _ := mustOpen(t, Options{FS: m, Config: small()})
	add := func(n int) {
		for range n {
			e := entry(int(j.Last())+1, 50)
			if e.Kind = pipeline.EntryMessage; (j.Last()+1)%7 == 0 {
				e.Kind = pipeline.EntryAnchor
			}
			if _, err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		add(5)
	}
	j.Retain("p", 300)
	if err := j.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(j *Journal, enough int) {
		t.Helper()
		var want, got []pipeline.Position
		if err := j.Scan(0, func(e *pipeline.Entry) error {
			if e.Kind == pipeline.EntryAnchor {
				want = append(want, e.Pos)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(want)
		want = want[:min(len(want), enough)]
		if err := j.ScanBack(func(k pipeline.EntryKind) bool { return k == pipeline.EntryAnchor }, func(e *pipeline.Entry) (bool, error) {
			if got = append(got, e.Pos); e.Kind != pipeline.EntryAnchor || e.Session == "" {
				t.Errorf("%+v", e)
			}
			return len(got) < enough, nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("back %v, want %v", got, want)
		}
	}
	check(j, 1)
	check(j, 10000)
	last := j.Last()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, _ = mustOpen(t, Options{FS: m, Config: small(), After: last + 100})
	defer j.Close()
	add(20)
	check(j, 1)
	check(j, 20)
	check(j, 10000)
	wrong := errors.New("wrong")
	if err := j.ScanBack(func(pipeline.EntryKind) bool { return true }, func(*pipeline.Entry) (bool, error) { return true, wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	empty, _ := mustOpen(t, Options{FS: disktest.NewMem(), Config: small()})
	defer empty.Close()
	if err := empty.ScanBack(func(pipeline.EntryKind) bool { return true }, func(*pipeline.Entry) (bool, error) { return false, wrong }); err != nil {
		t.Error(err)
	}
}

func TestRule11_HoldersKeepTheJournal(t *testing.T) {
	j, _ := mustOpen(t, Options{FS: disktest.NewMem()})
	defer j.Close()
	fill(t, j, 100, 400)
	trim := func(want func(first pipeline.Position) bool) {
		t.Helper()
		if err := j.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !want(j.First()) {
			t.Fatalf("first is %d, holders %v", j.First(), j.Stats().Holders)
		}
	}
	trim(func(f pipeline.Position) bool { return f == 1 })
	j.Retain("a", 0)
	j.Retain("b", 90)
	trim(func(f pipeline.Position) bool { return f == 1 })
	j.Retain("a", 60)
	trim(func(f pipeline.Position) bool { return f > 20 && f <= 61 })
	j.Release("a")
	trim(func(f pipeline.Position) bool { return f > 61 && f <= 91 })
	if _, err := j.Reader(5); !errors.Is(err, pipeline.ErrTrimmed) {
		t.Fatal(err)
	}
	n := 0
	if err := j.Scan(0, func(*pipeline.Entry) error { n++; return nil }); err != nil || n != int(j.Last()-j.First())+1 {
		t.Fatal(err, n)
	}
}

// TestCarryIsDurableBeforeTheRecycle also with a full journal.
func TestCarryIsDurableBeforeTheRecycle(t *testing.T) {
	c := small()
	c.MaxBytes = 8 * c.SegmentBytes
	j, _ := mustOpen(t, Options{FS: disktest.NewMem(), Config: c})
	defer j.Close()
	var err error
	for err == nil {
		if _, err = j.Append(entry(int(j.Last())+1, 500)); err == nil {
			err = j.Sync(t.Context())
		}
	}
	if !errors.Is(err, pipeline.ErrJournalFull) {
		t.Fatal(err)
	}
	var before pipeline.Position
	j.SetCarry(func(b pipeline.Position, add func(*pipeline.Entry) error) error {
		before = b
		if j.First() >= b {
			t.Error("recycled before the carry")
		}
		return add(&pipeline.Entry{Kind: pipeline.EntryCarry, Session: "plant", Payload: []byte("table")})
	})
	j.Retain("p", j.Last())
	if err := j.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if before != j.First() || j.Durable() != j.Last() {
		t.Fatal(before, j.First())
	}
	carried := false
	_ = j.Scan(0, func(e *pipeline.Entry) error { carried = carried || e.Kind == pipeline.EntryCarry; return nil })
	if !carried {
		t.Fatal("nothing carried")
	}
	failed := errors.New("table is busy")
	j.SetCarry(func(pipeline.Position, func(*pipeline.Entry) error) error { return failed })
	fill(t, j, 60, 500)
	j.Retain("p", j.Last())
	first := j.First()
	if err := j.Trim(t.Context()); !errors.Is(err, failed) || j.First() != first {
		t.Fatal(err, j.First())
	}
}

// TestRule21_DamageIsAGapEntry: never a silent jump.
func TestRule21_DamageIsAGapEntry(t *testing.T) {
	gap := func(f faults) bool {
		m := disktest.NewMem()
		j, _ := mustOpen(t, Options{FS: m, Stamp: func() pipeline.Stamp { return pipeline.Stamp{Elapsed: 77} }})
		fill(t, j, 30, 400)
		_ = j.Close()
		m.Flip(m.Names()[0], 5000, 1)
		j, rec, err := open(Options{FS: m, Dir: "/journal", Config: small()}, f)
		if err != nil || len(rec.Lost) != 1 {
			t.Fatal(err, rec)
		}
		defer j.Close()
		if j.Last() != 30 {
			t.Fatal(j.Last())
		}
		found := false
		r, _ := j.Reader(1)
		for next := pipeline.Position(1); next <= 30; {
			b, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if b.First != next {
				return false
			}
			for _, e := range b.Entries {
				if e.Kind == pipeline.EntryGap {
					found = e.Pos == pipeline.Position(rec.Lost[0].First) && len(e.Payload) > 0 && e.Stamp.Elapsed == 77
				}
			}
			next = b.Last + 1
		}
		return found
	}
	if !gap(faults{}) {
		t.Error("no gap entry in the place of the damage")
	}
	if gap(faults{gapHidden: true}) {
		t.Error("the planted fault is not found")
	}
}

// TestPositionsGoOnBehindACheckpoint: the journal lost its tail, a checkpoint knows a higher position.
func TestPositionsGoOnBehindACheckpoint(t *testing.T) {
	again := func(f faults) bool {
		m := disktest.NewMem()
		j, _ := mustOpen(t, Options{FS: m})
		fill(t, j, 5, 100)
		_ = j.Close()
		j, _, err := open(Options{FS: m, Dir: "/journal", Config: small(), After: 8}, f)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		pos, err := j.Append(entry(1, 10))
		if err != nil {
			t.Fatal(err)
		}
		return pos <= 8
	}
	if again(faults{}) {
		t.Error("a position is given out twice")
	}
	if !again(faults{positionsAgain: true}) {
		t.Error("the planted fault is not found")
	}
}

func TestFailedJournal(t *testing.T) {
	m := disktest.NewMem()
	j, _ := mustOpen(t, Options{FS: m})
	defer j.Close()
	fill(t, j, 1, 10)
	told := make(chan error, 2)
	j.OnDurable(func(_ pipeline.Position, err error) { told <- err })
	m.FailSyncs(1)
	_, _ = j.Append(entry(2, 10))
	if err := j.Sync(t.Context()); !errors.Is(err, pipeline.ErrJournalFailed) {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, pipeline.ErrJournalFailed) {
		t.Fatal(err)
	}
	if _, err := j.Append(entry(3, 10)); !errors.Is(err, pipeline.ErrJournalFailed) || j.Durable() != 1 {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Trim(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
