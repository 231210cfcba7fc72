package log

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestStretch: a lone record waits for the stretch, a burst as long as without one, and somebody in Sync not at all.
func TestStretch(t *testing.T) {
	for _, c := range []struct {
		name     string
		linger   time.Duration // configured
		stretch  time.Duration
		burst    int // records at once
		steady   int // more, one every 10 ms
		together bool
		want     time.Duration
	}{
		{"alone", 5 * time.Millisecond, time.Second, 1, 0, false, time.Second},
		{"alone, linger 0", 0, 400 * time.Millisecond, 1, 0, false, 400 * time.Millisecond},
		{"a burst", 5 * time.Millisecond, time.Second, 10, 0, false, 5 * time.Millisecond},
		{"a burst, linger 0", 0, time.Second, 10, 0, false, 0},
		{"a burst in one", 5 * time.Millisecond, time.Second, 30, 0, true, 5 * time.Millisecond},
		{"they come together", 5 * time.Millisecond, time.Second, 1, 9, false, 90 * time.Millisecond},
		{"too few", 5 * time.Millisecond, time.Second, 1, 8, false, time.Second},
		{"shorter than configured", 50 * time.Millisecond, 10 * time.Millisecond, 1, 0, false, 50 * time.Millisecond},
		{"none", 5 * time.Millisecond, 0, 1, 0, false, 5 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := small()
			cfg.Linger = c.linger
			l, _ := mustOpen(t, disktest.NewMem(), cfg)
			l.Stretch(c.stretch, 10)
			start := time.Now()
			done := make(chan time.Duration, 100)
			l.OnDurable(func(uint64, error) { done <- time.Since(start) })
			if c.together {
				if _, n, err := l.AppendAll(c.burst, func(int) int { return 1 }, func(b []byte, _ int) []byte { return append(b, 'x') }); n != c.burst || err != nil {
					t.Fatal(n, err)
				}
			} else {
				for range c.burst {
					add(t, l)
				}
			}
			for range c.steady {
				time.Sleep(10 * time.Millisecond)
				add(t, l)
			}
			if took := <-done; took != c.want {
				t.Errorf("%s: committed after %s, want %s", c.name, took, c.want)
			}
			start = time.Now()
			add(t, l)
			if err := l.Sync(t.Context()); err != nil || <-done > c.linger {
				t.Errorf("%s: Sync waited for the stretch: %v", c.name, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStretchEnds: an open block does not wait for a stretch that is over, and a stretch that comes meanwhile holds for it.
func TestStretchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := small()
		cfg.Linger = 5 * time.Millisecond
		l, _ := mustOpen(t, disktest.NewMem(), cfg)
		start := time.Now()
		done := make(chan time.Duration, 2)
		l.OnDurable(func(uint64, error) { done <- time.Since(start) })
		l.Stretch(10*time.Second, 10)
		add(t, l)
		time.Sleep(time.Second)
		l.Stretch(0, 0)
		if took := <-done; took != time.Second {
			t.Errorf("committed after %s", took)
		}
		start = time.Now()
		add(t, l)
		l.Stretch(time.Second, 10)
		if took := <-done; took != time.Second {
			t.Errorf("committed after %s, want 1s", took)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func add(t *testing.T, l *Log) {
	t.Helper()
	if _, err := l.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
}
