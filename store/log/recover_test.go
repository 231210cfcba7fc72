package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// filled gives a file system with n records, each committed by itself, and the closed log's segments.
func filled(t testing.TB, n, size int) (*disktest.Mem, []*segment) {
	t.Helper()
	m := disktest.NewMem()
	l, _ := mustOpen(t, m, small())
	for range n {
		if _, err := l.Append(record(l.Last()+1, size)); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	segs := l.segments
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return m, segs
}

// TestRule08_TailIsDurableBeforeAnyReaderSeesIt: a killed process leaves frames in the page cache that no sync has covered. The next
// process reads them; then the power is cut. What a reader saw must still be there, and its position must not be given out anew.
func TestRule08_TailIsDurableBeforeAnyReaderSeesIt(t *testing.T) {
	lostAfterCut := func(bugs faults) bool {
		m := disktest.NewMem()
		f := disktest.NewFaulty(m)
		l, _ := mustOpen(t, f, small())
		if _, err := l.Append([]byte("durable")); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.KillAtSync(1)
		if _, err := l.Append([]byte("only in the page cache")); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
		_ = l.Close()
		l, _, err := open(Options{FS: m, Dir: "/log", Config: small()}, bugs)
		if err != nil {
			t.Fatal(err)
		}
		seen, _ := readAll(t, l, 1)
		if seen[2] != "only in the page cache" {
			t.Fatalf("the reader saw %v", seen)
		}
		lost := false
		(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
			after, _ := mustOpen(t, img, small())
			defer after.Close()
			if recs, _ := readAll(t, after, 1); after.Last() < 2 || recs[2] != seen[2] {
				lost = true
			}
		})
		_ = l.Close()
		return lost
	}
	if lostAfterCut(faults{}) {
		t.Error("a record that a reader saw is gone after a power cut")
	}
	if !lostAfterCut(faults{tailNotSynced: true}) {
		t.Error("the planted fault is not found")
	}
}

// TestFramesBehindTheCutDoNotComeBack: of a commit of two frames the second survived alone. Its place is reached again by a frame of
// the same size; it must not continue the log then.
func TestFramesBehindTheCutDoNotComeBack(t *testing.T) {
	invented := func(bugs faults) (found bool) {
		bugs.frameRaw = 150
		m := disktest.NewMem()
		f := disktest.NewFaulty(m)
		l, _, err := open(Options{FS: f, Dir: "/log", Config: small()}, bugs)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = l.Append(record(1, 100))
		_ = l.Sync(t.Context())
		f.KillAtSync(1)
		l.mu.Lock() // both records in one commit
		for i := range uint64(2) {
			l.open.room(100, 150)
			l.open.raw = appendRecord(l.open.raw, 100, [][]byte{record(10+i, 100)})
			l.open.count++
			l.next++
		}
		l.mu.Unlock()
		_ = l.Sync(t.Context())
		_ = l.Close()
		(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
			l, _, err := open(Options{FS: img, Dir: "/log", Config: small()}, bugs)
			if err != nil {
				t.Fatal(err)
			}
			if l.Last() != 1 {
				_ = l.Close()
				return
			}
			_, _ = l.Append(record(20, 100))
			_ = l.Sync(t.Context())
			_ = l.Close()
			l, _, err = open(Options{FS: img, Dir: "/log", Config: small()}, bugs)
			if err != nil {
				t.Fatal(err)
			}
			found = found || l.Last() != 2
			_ = l.Close()
		})
		return found
	}
	if invented(faults{}) {
		t.Error("a frame behind the cut came back")
	}
	if !invented(faults{keepStale: true}) {
		t.Error("the planted fault is not found")
	}
}

// TestDamageIsSetAsideAndTheLogGoesOn flips one bit of each frame in turn.
func TestDamageIsSetAsideAndTheLogGoesOn(t *testing.T) {
	const n = 24
	_, layout := filled(t, n, 700)
	for si, seg := range layout {
		for fi, ref := range seg.frames {
			newest := si == len(layout)-1 && fi == len(seg.frames)-1
			for _, at := range []int64{0, 20, 50, headerBytes, int64(ref.size) - 1} {
				m, segs := filled(t, n, 700)
				m.Flip(segs[si].name, ref.off+at, 3)
				l, rec := mustOpen(t, m, small())
				if newest { // not to be told from a torn one
					if l.Last() != n-1 || len(rec.Lost) != 0 {
						t.Fatalf("newest frame damaged at %d: last %d, %+v", at, l.Last(), rec)
					}
					_ = l.Close()
					continue
				}
				if len(rec.Lost) != 1 || rec.Lost[0].First != ref.first || rec.Lost[0].Last != ref.last || l.Last() != n {
					t.Fatalf("frame %d at %d: last %d, %+v", ref.first, at, l.Last(), rec.Lost)
				}
				aside, err := disk.ReadFile(m, rec.Lost[0].Aside)
				if err != nil || len(aside) < ref.size {
					t.Fatalf("aside: %d bytes, %v", len(aside), err)
				}
				if pos, err := l.Append(record(n+1, 100)); err != nil || pos != n+1 {
					t.Fatal(pos, err)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l, rec = mustOpen(t, m, small())
				recs, lost := readAll(t, l, 1)
				if len(recs) != n || len(lost) != 1 || lost[0].First != ref.first || len(rec.Lost) != 1 || recs[ref.first] != "" {
					t.Fatalf("after reopen: %d records, lost %+v, %+v", len(recs), lost, rec.Lost)
				}
				_ = l.Close()
			}
		}
	}
}

func TestDamagedFirstSectorIsRepaired(t *testing.T) {
	const n = 24
	for si := range 3 {
		m, segs := filled(t, n, 700)
		m.Flip(segs[si].name, 10, 1)
		for range 2 {
			l, rec := mustOpen(t, m, small())
			if recs, _ := readAll(t, l, l.First()); len(recs) != n || len(rec.Lost) != 0 {
				t.Fatalf("segment %d: %d records, %+v", si, len(recs), rec.Lost)
			}
			_ = l.Close()
		}
	}
}

// TestDamagedFreeMark: a recycled segment whose mark is damaged does not come back to life.
func TestDamagedFreeMark(t *testing.T) {
	m, segs := filled(t, 50, 700)
	l, _ := mustOpen(t, m, small())
	if err := l.Trim(1 << 50); err != nil {
		t.Fatal(err)
	}
	first := l.First()
	_ = l.Close()
	m.Flip(segs[1].name, 20, 1)
	for range 2 {
		l, rec := mustOpen(t, m, small())
		if l.First() != first || l.Last() != 50 || len(rec.Lost) != 0 {
			t.Fatalf("first %d, want %d, last %d, %+v", l.First(), first, l.Last(), rec)
		}
		_ = l.Close()
	}
}

func TestPassingReadErrorsAreNotDamage(t *testing.T) {
	for n := range 2 * readAttempts {
		m, _ := filled(t, 24, 700)
		f := disktest.NewFaulty(m)
		f.FailReads(n)
		l, rec, err := Open(Options{FS: f, Dir: "/log", Config: small()})
		if err != nil || l.Last() != 24 || rec.Records != 24 {
			t.Fatalf("%d failed reads: %v, %+v", n, err, rec)
		}
		_ = l.Close()
	}
}

// TestPositionsAreNeverGivenOutTwice: everything trimmed, the only segment unreadable, the tail lost.
func TestPositionsAreNeverGivenOutTwice(t *testing.T) {
	t.Run("all trimmed", func(t *testing.T) {
		m, _ := filled(t, 50, 700)
		for range 3 {
			l, _ := mustOpen(t, m, small())
			if err := l.Trim(1 << 50); err != nil {
				t.Fatal(err)
			}
			if l.Last() != 50 {
				t.Fatalf("last is %d", l.Last())
			}
			_ = l.Close()
		}
	})
	t.Run("nothing readable", func(t *testing.T) {
		m, segs := filled(t, 5, 700)
		for off := int64(0); off < segs[0].size; off += 8 {
			m.Flip(segs[0].name, off, 2)
		}
		for range 2 {
			l, rec := mustOpen(t, m, small())
			if pos, err := l.Append([]byte("x")); err != nil || pos <= positionJump {
				t.Fatalf("position %d given out again, %v, %+v", pos, err, rec)
			}
			_ = l.Close()
		}
		if names := strings.Join(m.Names(), " "); !strings.Contains(names, "/log/aside-") {
			t.Fatalf("nothing set aside: %s", names)
		}
	})
	t.Run("known to be higher", func(t *testing.T) {
		m, _ := filled(t, 5, 700)
		for range 2 {
			l, rec, err := Open(Options{FS: m, Dir: "/log", Config: small(), After: 9})
			if err != nil || l.Last() < 9 || len(rec.Lost) != 1 || rec.Lost[0].First != 6 || rec.Lost[0].Last != 9 {
				t.Fatal(err, l.Last(), rec)
			}
			if _, lost := readAll(t, l, 1); len(lost) != 1 {
				t.Fatal(lost)
			}
			_, _ = l.Append([]byte("x"))
			_ = l.Close()
		}
	})
}

func TestNewerVersionIsNotDamage(t *testing.T) {
	for name, change := range map[string]struct {
		at   int
		want error
	}{"version": {4, ErrVersion}, "flags": {5, ErrFlags}} {
		for _, off := range []int{0, headerBytes} { // first sector, first frame
			m, segs := filled(t, 3, 700)
			b, err := disk.ReadFile(m, segs[0].name)
			if err != nil {
				t.Fatal(err)
			}
			size, err := frameSize(b[off:])
			if err != nil {
				t.Fatal(err)
			}
			frame := b[off : off+size]
			frame[change.at] = 0x90
			sealAgain(frame)
			f, _ := m.Open(segs[0].name)
			_, _ = f.WriteAt(frame, int64(off))
			before := fmt.Sprint(m.Names())
			if _, _, err := Open(Options{FS: m, Dir: "/log", Config: small()}); !errors.Is(err, change.want) {
				t.Errorf("%s at %d: %v", name, off, err)
			}
			if fmt.Sprint(m.Names()) != before {
				t.Error("files were changed")
			}
		}
	}
}

func TestUnreadablePagesAreDamage(t *testing.T) {
	m, _ := filled(t, 24, 700)
	f := disktest.NewFaulty(m)
	f.FailReads(0)
	l, _, err := Open(Options{FS: f, Dir: "/log", Config: small()})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := l.Reader(1)
	f.FailReads(1)
	if _, err := r.Next(context.Background()); err == nil {
		t.Fatal("no error from a failed read")
	}
	if b, err := r.Next(context.Background()); err != nil || b.First != 1 || b.Lost {
		t.Fatal("a passing read error is not damage", err)
	}
	m.Flip(l.segments[0].name, l.segments[0].frames[1].off+80, 0)
	if b, err := r.Next(context.Background()); err != nil || !b.Lost || b.First != 2 {
		t.Fatal("damage since Open is not told", err)
	}
	if b, err := r.Next(context.Background()); err != nil || b.Lost || b.First != 3 {
		t.Fatal("reading does not go on behind damage", err)
	}
	_ = l.Close()
}

func TestOSFilesStayPreallocated(t *testing.T) {
	dir := t.TempDir()
	l, _, err := Open(Options{Dir: dir, Config: small()})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = l.Append([]byte("x"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, segmentName(1)))
	if err != nil || info.Size() != small().SegmentBytes {
		t.Fatal(info, err)
	}
}
