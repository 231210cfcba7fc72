package log

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestSkipTo: records before and behind keep their positions, while others append all the time, and after a reopening.
func TestSkipTo(t *testing.T) {
	m := disktest.NewMem()
	l, _, err := Open(Options{FS: m, Dir: "/log", Config: small()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	at := map[uint64]bool{}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 200 {
				pos, err := l.Append([]byte("record"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if at[pos] {
					t.Errorf("position %d was given twice", pos)
				}
				at[pos] = true
				mu.Unlock()
			}
		})
	}
	upTo := uint64(0)
	for range 5 {
		upTo = l.Last() + 1000
		if err := l.SkipTo(t.Context(), upTo); err != nil || l.Durable() < upTo {
			t.Errorf("%v, durable %d", err, l.Durable())
		}
	}
	wg.Wait()
	if err := l.SkipTo(t.Context(), 3); err != nil { // given out long ago
		t.Error(err)
	}
	pos, err := l.Append([]byte("behind"))
	if err != nil || pos <= upTo {
		t.Errorf("%d, %v", pos, err)
	}
	at[pos] = true
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkPositions(t, l, at)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.SkipTo(t.Context(), pos+1); err == nil {
		t.Error("a closed log skips")
	}
	l, rec, err := Open(Options{FS: m, Dir: "/log", Config: small()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkPositions(t, l, at)
	if len(rec.Lost) != 5 {
		t.Errorf("%d ranges without records, want 5", len(rec.Lost))
	}
}

// toldOf are the errors that a log tells of when it opens behind what f has done to it, and the ranges without records that it then has.
func toldOf(t *testing.T, after uint64, bugs faults, f func(l *Log) error) (told string, ranges []Block) {
	t.Helper()
	m := disktest.NewMem()
	l, _, err := open(Options{FS: m, Dir: "/log", Config: small()}, bugs)
	if err == nil {
		_, err = l.Append([]byte("record"))
	}
	if err == nil {
		err = f(l)
	}
	for _, b := range l.tail {
		if b.Lost {
			ranges = append(ranges, *b)
		}
	}
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	errorsOnly := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelError}))
	if l, _, err = Open(Options{FS: m, Dir: "/log", Config: small(), After: after, Logger: errorsOnly}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Reader(1)
	if err != nil {
		t.Fatal(err)
	}
	for next := uint64(1); next <= l.Durable(); {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b.Lost {
			ranges = append(ranges, *b)
		}
		next = b.Last + 1
	}
	return b.String(), ranges
}

// TestWhatIsLeftOutOnPurposeIsNoLoss: neither a reader nor a recovery calls it one; positions that a checkpoint knows and the log has not are one, also behind it.
func TestWhatIsLeftOutOnPurposeIsNoLoss(t *testing.T) {
	skip := func(l *Log) error { return l.SkipTo(t.Context(), 100) }
	wrong := func(after uint64, bugs faults) string {
		told, ranges := toldOf(t, after, bugs, skip)
		if told != "" || len(ranges) != 2 {
			return fmt.Sprintf("%d ranges, told %s", len(ranges), told)
		}
		for _, b := range ranges {
			if b.First != 2 || b.Last != 100 || !b.LeftOut {
				return fmt.Sprintf("%d to %d, on purpose %v", b.First, b.Last, b.LeftOut)
			}
		}
		return ""
	}
	if w := wrong(100, faults{}); w != "" {
		t.Error(w)
	}
	if wrong(100, faults{jumpAsLoss: true}) == "" {
		t.Error("the planted fault is not found")
	}
	told, ranges := toldOf(t, 120, faults{}, skip)
	if !strings.Contains(told, "log records lost") || !strings.Contains(told, "first=101 last=120") || strings.Contains(told, "first=2") {
		t.Errorf("told %q", told)
	}
	if n := len(ranges); n != 3 || ranges[2].First != 101 || ranges[2].LeftOut {
		t.Errorf("ranges %+v", ranges)
	}
}

func checkPositions(t *testing.T, l *Log, want map[uint64]bool) {
	t.Helper()
	r, err := l.Reader(l.First())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for next := l.First(); next <= l.Last(); {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b.First != next {
			t.Errorf("block at %d, want %d", b.First, next)
		}
		for pos := b.First; pos <= b.Last; pos++ {
			if want[pos] == b.Lost {
				t.Errorf("position %d: record %v, lost %v", pos, want[pos], b.Lost)
			}
		}
		if !b.Lost {
			n += b.Count()
		}
		next = b.Last + 1
	}
	if n != len(want) {
		t.Errorf("%d records, want %d", n, len(want))
	}
}
