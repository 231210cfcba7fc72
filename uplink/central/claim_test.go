package central

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// TestRule27_MajorsAreGivenOutOnce: many devices claim at once over a line that loses requests and answers; no two get one major.
func TestRule27_MajorsAreGivenOutOnce(t *testing.T) {
	var mu sync.Mutex
	n := 0
	m := &buckettest.Memory{Fault: func(r buckettest.Request) buckettest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n++; r.Verb == "replace" {
			return []buckettest.Fault{buckettest.None, buckettest.AnswerLost, buckettest.Lost}[n%3]
		}
		return buckettest.None
	}}
	var wait sync.WaitGroup
	majors := map[uint32]string{}
	const devices, each = 8, 5
	for i := range devices {
		wait.Go(func() {
			board := fmt.Sprint("board", i)
			for range each {
				c, err := TakeClaim(t.Context(), m, "gw", board, "", 2, 1)
				for err != nil && t.Context().Err() == nil { // lost, or changed by others, in every try: how often is chance
					c, err = TakeClaim(t.Context(), m, "gw", board, "", 2, 1)
				}
				mu.Lock()
				if other := majors[c.Major]; other != "" || c.Board != board || c.Major < 2 {
					t.Errorf("major %d is given to %s and to %s", c.Major, other, board)
				}
				majors[c.Major] = board
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(majors) != devices*each {
		t.Fatalf("%d majors were given out for %d claims", len(majors), devices*each)
	}
}

// forgetful ignores what version an object has: without compare-and-swap two devices get one major.
type forgetful struct{ *buckettest.Memory }

func (f forgetful) Replace(ctx context.Context, name, _ string, body []byte) (string, error) {
	return "", f.Put(ctx, name, body)
}

func TestRule27_FindsAStoreWithoutCompareAndSwap(t *testing.T) {
	both := make(chan struct{}, 2)
	release := make(chan struct{})
	m := &buckettest.Memory{}
	gate := func() bucket.Bucket { return gated{forgetful{m}, both, release} }
	var wait sync.WaitGroup
	var majors [2]uint32
	for i := range majors {
		wait.Go(func() {
			c, err := TakeClaim(t.Context(), gate(), "gw", fmt.Sprint(i), "", 1, 1)
			if err != nil {
				t.Error(err)
			}
			majors[i] = c.Major
		})
	}
	<-both
	<-both
	close(release)
	wait.Wait()
	if majors[0] != majors[1] {
		t.Errorf("the fault gives majors %v: it shows nothing", majors)
	}
}

// gated lets two readers read before either goes on.
type gated struct {
	forgetful
	both    chan struct{}
	release chan struct{}
}

func (g gated) Get(ctx context.Context, name string) ([]byte, string, error) {
	b, v, err := g.forgetful.Get(ctx, name)
	select {
	case g.both <- struct{}{}:
	default:
	}
	<-g.release
	return b, v, err
}

func TestHoldClaim(t *testing.T) {
	m := &buckettest.Memory{}
	hold := func(board string, major uint32) error {
		_, err := HoldClaim(t.Context(), m, "gw", board, "", major, 1)
		return err
	}
	if err := hold("a", 1); err != nil {
		t.Fatal(err)
	}
	if err := hold("a", 1); err != nil {
		t.Errorf("the holder looks again: %v", err)
	}
	if err := hold("b", 1); !errors.Is(err, ErrFenced) {
		t.Errorf("another board with an equal major: %v", err)
	}
	c, err := TakeClaim(t.Context(), m, "gw", "b", "key", 1, 1)
	if err != nil || c.Major != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := hold("a", 1); !errors.Is(err, ErrFenced) {
		t.Errorf("the device that was replaced: %v", err)
	}
	m.Forget(1) // the store loses the last write
	if err := hold("b", 2); err != nil {
		t.Fatal(err)
	}
	if c, _, err := ReadClaim(t.Context(), m, "gw"); err != nil || c.Major != 2 || c.Board != "b" {
		t.Errorf("the holder did not put its claim back: %+v %v", c, err)
	}
	m.Change(NamesOf("gw").Claim(), func(b []byte) []byte { return b[:len(b)/2] })
	if err := hold("b", 2); !errors.Is(err, ErrClaim) || errors.Is(err, ErrFenced) {
		t.Errorf("a damaged claim fences nobody and is not overwritten: %v", err)
	}
}

func FuzzClaim(f *testing.F) {
	f.Add([]byte(`{"version":1,"major":2,"board":"devicetree:00","claimed_ms":1,"by":"x"}`))
	f.Add([]byte(`{"version":2,"major":2,"board":"x"}`))
	f.Add([]byte(`{"major":4294967296}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeClaim(b)
		if err != nil {
			return
		}
		m := &buckettest.Memory{}
		if err := put(t.Context(), m, "gw", "", &c); err != nil {
			t.Fatal(err)
		}
		again, _, err := ReadClaim(t.Context(), m, "gw")
		if err != nil || again != c {
			t.Fatalf("%+v became %+v, %v", c, again, err)
		}
	})
}
