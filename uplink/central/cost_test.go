package central

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// TestCostOfAWholeCycle: 100k keys of which 1 % change from upload to upload. All that is put, heads and manifests too, from one base to the next, is at most 1.2 times what the deltas
// alone have, compressed. Counts, not times.
func TestCostOfAWholeCycle(t *testing.T) {
	if testing.Short() {
		t.Skip("a cycle has 600 uploads")
	}
	w := newWorld(t, 11)
	w.keys, w.value, w.light = 100_000, 64, true
	w.checkpoint(500_000) // nearly every key
	var sent, deltas uint64
	uploads := 0
	for w.rebases < 2 {
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		if w.rebases == 2 {
			break
		}
		if err := w.drive(); err != nil {
			t.Fatal(err)
		}
		sent, deltas, uploads = uint64(w.bucket.Sent()), w.cutBytes, uploads+1
		w.checkpoint(1000)
		delete(w.dirty, w.id-2) // memory
		w.bucket.Advance(60_000)
	}
	ratio := float64(sent) / float64(deltas)
	t.Logf("%d uploads, %d bytes put, %d bytes of compressed changes: %.3f; base %d", uploads, sent, deltas, ratio, w.pipe.rec.last().BaseBytes)
	if ratio > 1.2 || uploads < 100 {
		t.Fatalf("%.3f times what changed was uploaded, at most 1.2 are allowed", ratio)
	}
}

// slowLink is a link of so many bytes per second that drops every so often, in virtual time: a request that is under way then is lost.
type slowLink struct {
	bucket.Bucket
	bytesPerSecond int
	every          time.Duration
	next           time.Time
	drops          int
}

// pass lets time go by.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errDropped = errors.New("the link dropped")

// move lets n bytes and a round trip pass.
func (l *slowLink) move(ctx context.Context, n int) error {
	const overhead = 700 // headers and signature, both ways
	now := time.Now()
	if l.next.IsZero() {
		l.next = now.Add(l.every)
	}
	for !now.Before(l.next) {
		l.next = l.next.Add(l.every)
	}
	done := now.Add(200*time.Millisecond + time.Duration(n+overhead)*time.Second/time.Duration(l.bytesPerSecond))
	if !done.Before(l.next) {
		l.drops++
		if err := pass(ctx, time.Until(l.next)); err != nil {
			return err
		}
		return errDropped
	}
	return pass(ctx, time.Until(done))
}

func (l *slowLink) Put(ctx context.Context, name string, body []byte) error {
	if err := l.move(ctx, len(body)); err != nil {
		return err
	}
	return l.Bucket.Put(ctx, name, body)
}

func (l *slowLink) Replace(ctx context.Context, name, version string, body []byte) (string, error) {
	if err := l.move(ctx, len(body)); err != nil {
		return "", err
	}
	return l.Bucket.Replace(ctx, name, version, body)
}

func (l *slowLink) Get(ctx context.Context, name string) ([]byte, string, error) {
	b, v, err := l.Bucket.Get(ctx, name)
	if merr := l.move(ctx, len(b)); merr != nil {
		return nil, "", merr
	}
	return b, v, err
}

func (l *slowLink) List(ctx context.Context, prefix, after string) ([]bucket.Object, error) {
	page, err := l.Bucket.List(ctx, prefix, after)
	if merr := l.move(ctx, 200*len(page)); merr != nil {
		return nil, merr
	}
	return page, err
}

// TestSlowLinkConverges: 64 kbit/s that drop every 30 s, with a state that takes several drops to be uploaded: the base arrives, then the deltas, and the store is never further behind than an upload
// takes. In virtual time.
func TestSlowLinkConverges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &slowLink{bytesPerSecond: 8000, every: 30 * time.Second}
		w := newWorld(t, 21)
		w.keys, w.value = 20_000, 64
		w.config = func(c *Config) {
			link.Bucket = c.Bucket
			c.Bucket, c.Sleep, c.CollectEvery = link, nil, 16
		}
		w.start()
		w.checkpoint(100_000)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.up.Run(ctx) }()
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 360 { // an hour of checkpoints, every 10 s, with 1 % each
			time.Sleep(10 * time.Second)
			w.checkpoint(200)
			if _, err := w.cut(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Minute)
		stop()
		<-ended
		st := w.pipe.Status(time.Now())
		t.Logf("%s: %d uploads, %d drops, base of %d bytes, %d bytes sent, %d bytes of changes; checkpoint %d of %d in the store", time.Since(begun), st.Uploads, link.drops, st.BaseBytes, st.Sent, w.cutBytes, st.Checkpoint, w.id)
		if link.drops < 10 {
			t.Error("the link hardly dropped: the test shows nothing")
		}
		if st.Uploads < 30 || w.id-st.Checkpoint > 30 {
			t.Errorf("%d uploads, %d checkpoints behind", st.Uploads, w.id-st.Checkpoint)
		}
		if float64(st.Sent) > 1.6*float64(w.cutBytes+st.BaseBytes) {
			t.Errorf("%d bytes sent for %d: what was sent before a drop is sent again", st.Sent, w.cutBytes+st.BaseBytes)
		}
		if _, err := w.check(w.bucket.Clone(), st.Checkpoint); err != nil {
			t.Error(err)
		}
	})
}

// TestLargeBaseHoldsNobodyUp: the pieces of one pipeline go between those of another.
func TestLargeBaseHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, 31)
	w.keys, w.value = 20_000, 64
	w.checkpoint(100_000)
	if _, err := w.cut(); err != nil {
		t.Fatal(err)
	}
	small := newWorld(t, 32)
	small.bucket, small.up, small.spool = w.bucket, w.up, newSpool()
	var err error
	if small.pipe, err = w.up.Add(UUID{9}, "small", small.spool); err != nil {
		t.Fatal(err)
	}
	small.checkpoint(5)
	if _, err := small.cut(); err != nil {
		t.Fatal(err)
	}
	var order []string
	w.bucket.Log = func(r buckettest.Request) {
		if r.Verb == "replace" {
			order = append(order, strings.TrimPrefix(r.Name, w.up.names.All(KindHead)))
		}
	}
	if err := w.drive(); err != nil {
		t.Fatal(err)
	}
	if len(order) != 2 || order[0] != (UUID{9}).String() {
		t.Fatalf("heads were moved in the order %v", order)
	}
}

// TestFencedWritesNothing: neither a head nor a delete, once the claim is another's; and what a higher incarnation wrote is not touched.
func TestFencedWritesNothing(t *testing.T) {
	for _, plant := range []planted{{}, {fenceless: true}} {
		w := newWorld(t, 41)
		fenced := false
		w.config, w.plant = func(c *Config) {
			c.RebaseRatio = 1
			c.Fenced = func(context.Context) error {
				if fenced {
					return ErrFenced
				}
				return nil
			}
		}, plant
		w.start()
		if err := w.story(8); err != nil {
			t.Fatal(err)
		}
		before := w.confirmed()
		fenced = true
		changed := ""
		w.bucket.Log = func(r buckettest.Request) {
			if r.Verb == "replace" || r.Verb == "delete" {
				changed = r.Verb
			}
		}
		if err := w.story(2); err != nil {
			t.Fatal(err)
		}
		wrote := changed != "" || w.confirmed() != before
		if wrote != plant.fenceless {
			t.Fatalf("%+v: a fenced device did %q", plant, changed)
		}
		if !plant.fenceless && (!errors.Is(w.up.Fence(), ErrFenced) || !w.pipe.Status(time.Now()).Fenced) {
			t.Fatalf("it does not say so: %v", w.up.Fence())
		}
	}
}

// TestHigherIncarnationFences: by the head alone, where nobody asks a claim.
func TestHigherIncarnationFences(t *testing.T) {
	w := uploaded(t, 3)
	other := newWorld(t, 5)
	other.bucket, other.major = w.bucket, 2
	other.start()
	if err := other.story(2); err != nil {
		t.Fatal(err)
	}
	if id, err := other.check(w.bucket.Clone(), 2); err != nil || id != 2 {
		t.Fatalf("%d, %v", id, err)
	}
	if err := w.story(1); err != nil || !errors.Is(w.up.Fence(), ErrFenced) {
		t.Fatalf("%v, fence %v", err, w.up.Fence())
	}
	if id, err := other.check(w.bucket.Clone(), 2); err != nil || id != 2 {
		t.Fatalf("the fenced one wrote: %d, %v", id, err)
	}
}

// TestTwinsOfOneIncarnation: two processes with one identity, where nothing fences: neither's head names what is not whole.
func TestTwinsOfOneIncarnation(t *testing.T) {
	w := uploaded(t, 2)
	twin := newWorld(t, 5)
	twin.bucket = w.bucket
	twin.start()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		one := w
		if rnd.IntN(2) == 0 {
			one = twin
		}
		if err := one.story(2); err != nil {
			t.Fatal(err)
		}
		got, _, err := one.fetch(w.bucket.Clone(), planted{})
		if err != nil || len(got.PassedOver) > 0 {
			t.Fatalf("%v, %v", got, err)
		}
	}
}
