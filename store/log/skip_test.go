package log

import (
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
	if l, _, err = Open(Options{FS: m, Dir: "/log", Config: small()}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkPositions(t, l, at)
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
