package central

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
)

// line is a link with a rate and a way: requests share the one and each has the other, in virtual time.
type line struct {
	bucket.Bucket
	bytesPerSecond int
	way            time.Duration // there and back

	mu       sync.Mutex
	free     time.Time
	moved    int
	inFlight int
	bytes    int // of the answers in flight
	most     int
	mostHeld int
}

func (l *line) Get(ctx context.Context, name string) ([]byte, string, error) {
	b, v, err := l.Bucket.Get(ctx, name)
	l.mu.Lock()
	l.inFlight++
	l.bytes += len(b)
	l.most, l.mostHeld = max(l.most, l.inFlight), max(l.mostHeld, l.bytes)
	begin := time.Now().Add(l.way)
	if l.free.After(begin) {
		begin = l.free
	}
	l.free = begin.Add(time.Duration(len(b)) * time.Second / time.Duration(l.bytesPerSecond))
	l.moved += len(b)
	end := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(end))
	l.mu.Lock()
	l.inFlight--
	l.bytes -= len(b)
	l.mu.Unlock()
	return b, v, err
}

// lineRate fetches over a line of 10 Mbit/s whose answers take 100 ms to come, and gives what part of the line's rate was reached.
func lineRate(t *testing.T, w *world, plant planted) (ratio float64, l *line) {
	synctest.Test(t, func(t *testing.T) {
		l = &line{Bucket: w.bucket.Clone(), bytesPerSecond: 10_000_000 / 8, way: 100 * time.Millisecond}
		var told []uint64
		f := &Fetcher{Gateway: testGateway, Bucket: l, Trust: trusted(), plant: plant, Told: func(done, all uint64) { told = append(told, done, all) }}
		began := time.Now()
		got, err := f.Fetch(t.Context(), testID, newSpool())
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		state := map[string]string{}
		if err := got.Entries(func(_ uint64, key, _, val []byte) error { state[string(key)] = string(val); return nil }); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(state, w.state) {
			t.Fatal("what was fetched is something else")
		}
		if n := len(told); n < 4 || told[n-2] != told[n-1] || told[n-1] != got.Bytes || told[0] >= told[n-2] {
			t.Errorf("progress is told as %v", told)
		}
		ratio = float64(l.moved) / took.Seconds() / float64(l.bytesPerSecond)
		t.Logf("%d bytes in %s: %.3f of the line; %d requests at once, %d bytes", l.moved, took, ratio, l.most, l.mostHeld)
	})
	return ratio, l
}

// TestFetchAtLineRate: the line is full while pieces are fetched, with few requests at once and bounded memory, for large pieces and for small ones.
func TestFetchAtLineRate(t *testing.T) {
	w := newWorld(t, 31)
	w.light, w.keys, w.value = true, 50_000, 200
	w.start()
	w.checkpoint(100_000)
	for range 12 {
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		if err := w.drive(); err != nil {
			t.Fatal(err)
		}
		w.checkpoint(100)
		w.bucket.Advance(60_000)
	}
	if _, err := w.cut(); err != nil {
		t.Fatal(err)
	}
	if err := w.drive(); err != nil {
		t.Fatal(err)
	}
	ratio, l := lineRate(t, w, planted{})
	if ratio < 0.85 || l.most > aheadRequests || l.mostHeld > aheadBytes {
		t.Errorf("%.3f of the line, at least 0.85 are wanted; %d requests, %d bytes", ratio, l.most, l.mostHeld)
	}
	if slow, _ := lineRate(t, w, planted{oneByOne: true}); slow >= 0.85 {
		t.Errorf("the planted fault (one request at a time) was not found: %.3f", slow)
	}
}

// BenchmarkFetchAhead fetches from memory: what a fetch costs without a line.
func BenchmarkFetchAhead(b *testing.B) {
	w := newWorld(b, 31)
	w.light, w.keys, w.value = true, 30_000, 200
	w.start()
	w.checkpoint(60_000)
	if _, err := w.cut(); err != nil {
		b.Fatal(err)
	}
	if err := w.drive(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f := &Fetcher{Gateway: testGateway, Bucket: w.bucket, Trust: trusted()}
		got, err := f.Fetch(b.Context(), testID, newSpool())
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(got.Bytes))
	}
}

// cutOff fails the nth get for good.
type cutOff struct {
	bucket.Bucket
	mu sync.Mutex
	n  int
}

func (c *cutOff) Get(ctx context.Context, name string) ([]byte, string, error) {
	c.mu.Lock()
	c.n--
	dead := c.n < 0
	c.mu.Unlock()
	if dead {
		return nil, "", fmt.Errorf("get %s: %w", name, errDropped)
	}
	return c.Bucket.Get(ctx, name)
}

// TestFetchEndsItsRequests: whenever the line breaks, no request is left behind, and the next call goes on.
func TestFetchEndsItsRequests(t *testing.T) {
	w := uploaded(t, 4)
	for n := 0; ; n++ {
		whole := false
		synctest.Test(t, func(t *testing.T) { // a goroutine that is left fails it
			scratch := newSpool()
			f := &Fetcher{Gateway: testGateway, Bucket: &cutOff{Bucket: w.bucket.Clone(), n: n}, Trust: trusted()}
			got, err := f.Fetch(t.Context(), testID, scratch)
			whole = err == nil
			if got != nil != whole {
				t.Fatalf("cut at %d: %v, %v", n, got, err)
			}
			f.Bucket = w.bucket.Clone()
			if got, err = f.Fetch(t.Context(), testID, scratch); err != nil || got.Manifest.Checkpoint != 4 {
				t.Fatalf("behind a cut at %d: %v", n, err)
			}
		})
		if whole {
			break
		}
	}
}
