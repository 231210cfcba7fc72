package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// small is a configuration that rotates and fills quickly.
func small() Config {
	c := Default()
	c.SegmentBytes, c.MaxBytes, c.ReserveBytes = 8<<10, 1<<20, 0
	c.Linger, c.MaxUnsynced, c.TailBytes, c.Compress, c.SpareSegments = 0, 64<<10, 4<<10, false, 100
	return c
}

func mustOpen(t testing.TB, fsys disk.FS, c Config) (*Log, *Recovery) {
	t.Helper()
	l, rec, err := Open(Options{FS: fsys, Dir: "/log", Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return l, rec
}

func record(i uint64, size int) []byte {
	b := fmt.Appendf(nil, "record %d ", i)
	for len(b) < size {
		b = append(b, byte(i*31+uint64(len(b))*7))
	}
	return b
}

// readAll reads everything durable and checks that positions are consecutive.
func readAll(t testing.TB, l *Log, from uint64) (recs map[uint64]string, lost []Lost) {
	t.Helper()
	r, err := l.Reader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	recs = map[uint64]string{}
	next := from
	for next <= l.Durable() {
		b, err := r.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if b.First != next {
			t.Fatalf("block begins at %d, want %d", b.First, next)
		}
		if b.Lost {
			lost = append(lost, Lost{First: b.First, Last: b.Last})
			next = b.Last + 1
			continue
		}
		for pos, rec := range b.Records() {
			if pos != next {
				t.Fatalf("record %d, want %d", pos, next)
			}
			recs[pos] = string(rec)
			next++
		}
		if next != b.Last+1 {
			t.Fatalf("block says last is %d, has %d", b.Last, next-1)
		}
	}
	return recs, lost
}

func TestAppendSyncReadReopen(t *testing.T) {
	for name, fsys := range map[string]disk.FS{"mem": disktest.NewMem(), "os": disk.OS} {
		t.Run(name, func(t *testing.T) {
			dir := "/log"
			if name == "os" {
				dir = t.TempDir()
			}
			c := small()
			c.Compress = name == "os"
			stamp := pipeline.Stamp{Elapsed: 5, Wall: 6, Trusted: true}
			for round := range 3 {
				l, rec, err := Open(Options{FS: fsys, Dir: dir, Config: c, Stamp: func() pipeline.Stamp { return stamp }})
				if err != nil {
					t.Fatal(err)
				}
				if got, want := l.Last(), uint64(round*300); got != want || l.Durable() != want || rec.Records != want || len(rec.Lost) != 0 {
					t.Fatalf("round %d: last %d, durable %d, %+v", round, got, l.Durable(), rec)
				}
				if round > 0 && (rec.LastStamp != stamp || l.LastStamp() != stamp) {
					t.Fatalf("stamp %+v", rec.LastStamp)
				}
				for range 300 {
					next := l.Last() + 1
					b := record(next, int(next%400))
					pos, err := l.Append(b[:len(b)/2], b[len(b)/2:])
					if err != nil || pos != next {
						t.Fatal(pos, err)
					}
					if next%7 == 0 {
						if err := l.Sync(t.Context()); err != nil || l.Durable() < pos {
							t.Fatal(err)
						}
					}
				}
				if err := l.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				recs, _ := readAll(t, l, l.First())
				for pos := uint64(1); pos <= l.Last(); pos++ {
					if recs[pos] != string(record(pos, int(pos%400))) {
						t.Fatalf("record %d is %q", pos, recs[pos])
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Append(nil); !errors.Is(err, ErrClosed) {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestReaderWaitsAtTheTail(t *testing.T) {
	l, _ := mustOpen(t, disktest.NewMem(), small())
	defer l.Close()
	r, err := l.Reader(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	var b *Block
	var failed error
	var read sync.WaitGroup
	read.Go(func() { b, failed = r.Next(t.Context()) })
	defer read.Wait()
	if _, err := l.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if read.Wait(); failed != nil || b.Last != 1 {
		t.Fatal(b, failed)
	}
}

func TestTrimRecyclesAndKeepsTheNewest(t *testing.T) {
	m := disktest.NewMem()
	l, _ := mustOpen(t, m, small())
	fill := func(n int) {
		for range n {
			if _, err := l.Append(record(l.Last()+1, 500)); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(100)
	var hooked uint64
	l.SetBeforeRecycle(func(before uint64) error {
		hooked = before
		_, err := l.AppendReserved([]byte("carried"))
		return errors.Join(err, l.Sync(t.Context()))
	})
	if err := l.Trim(80); err != nil {
		t.Fatal(err)
	}
	first := l.First()
	if first == 1 || first > 80 || hooked != first || l.Last() != 101 {
		t.Fatalf("first %d, hook %d, last %d", first, hooked, l.Last())
	}
	if _, err := l.Reader(first - 1); !errors.Is(err, ErrTrimmed) {
		t.Fatal(err)
	}
	if err := l.Trim(1 << 40); err != nil {
		t.Fatal(err)
	}
	made := l.Stats().SegmentsMade
	fill(60)
	if s := l.Stats(); s.SegmentsMade != made {
		t.Fatalf("%d segments made after trim, recycled ones were there: %+v", s.SegmentsMade-made, s)
	}
	want, _ := readAll(t, l, l.First())
	last := l.Last()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, rec := mustOpen(t, m, small())
	defer l.Close()
	got, _ := readAll(t, l, l.First())
	if l.Last() != last || len(rec.Lost) > 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("after reopen: last %d, want %d, %+v", l.Last(), last, rec)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	c := Default()
	c.Linger, c.MaxUnsynced, c.ReserveBytes = time.Second*10, 64<<20, 0
	l, _ := mustOpen(t, disktest.NewMem(), c)
	defer l.Close()
	l.mu.Lock()
	l.open.raw = make([]byte, 0, 1<<20)
	l.mu.Unlock()
	a, b := make([]byte, 20), make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := l.Append(a, b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per Append", n)
	}
	recs := [][]byte{a, b}
	if n := testing.AllocsPerRun(1000, func() {
		if _, _, err := l.AppendAll(len(recs), func(i int) int { return len(recs[i]) }, func(dst []byte, i int) []byte { return append(dst, recs[i]...) }); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per AppendAll", n)
	}
}

// TestLastTrustedStamp: a device that is switched off several times before a time service is reached still knows when its clock was last right.
func TestLastTrustedStamp(t *testing.T) {
	fsys := disktest.NewMem()
	right := pipeline.Stamp{Elapsed: 1, Wall: 1_780_000_000_000, Trusted: true}
	for round, stamp := range []pipeline.Stamp{right, {Elapsed: 2, Wall: 20_000}, {Elapsed: 3, Wall: 30_000}, {Elapsed: 4, Wall: 1_780_000_000_001, Trusted: true}, {}} {
		l, rec, err := Open(Options{FS: fsys, Dir: "/log", Config: small(), Stamp: func() pipeline.Stamp { return stamp }})
		if err != nil {
			t.Fatal(err)
		}
		want := []pipeline.Stamp{{}, right, right, right, {Elapsed: 4, Wall: 1_780_000_000_001, Trusted: true}}[round]
		if rec.LastTrusted != want {
			t.Errorf("start %d: last trusted %+v, want %+v", round, rec.LastTrusted, want)
		}
		if _, err := l.Append([]byte("a record")); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
