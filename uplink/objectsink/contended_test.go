package objectsink

import (
	"context"
	"errors"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// raced is a store in which another sender was faster, at so many replaces.
type raced struct {
	bucket.Bucket
	left int
}

func (r *raced) Replace(ctx context.Context, name, version string, body []byte) (string, error) {
	if r.left--; r.left >= 0 {
		return "", bucket.ErrChanged
	}
	return r.Bucket.Replace(ctx, name, version, body)
}

// TestContendedOpen: the head changes under each try; that is temporary, and says so.
func TestContendedOpen(t *testing.T) {
	far := newDirFar(t, "none")
	open(t, far.Connect(t, "a").(*Sink), 0)
	s := far.Connect(t, "b").(*Sink)
	s.store = &raced{Bucket: s.store, left: casTries}
	two := uplink.Incarnation{Major: 2}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), two, 1); !errors.Is(err, uplink.ErrContended) {
		t.Fatalf("%v, want ErrContended", err)
	}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), two, 1); err != nil {
		t.Fatal(err)
	}
}
