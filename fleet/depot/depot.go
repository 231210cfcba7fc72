// Package depot is where the documents and artifacts of a fleet lie in the central store (fleet/FORMAT.md): their names, and how they are read. What it gives is either verified, or bytes of a bounded size about which nothing is known; the
// functions say which. It keeps nothing, reads no clock, and has no goroutine; each request is tried once.
package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
)

// ChunkMax is the size of the largest piece of an artifact.
const ChunkMax = 4 << 20

// ErrOther: what lies under a name that says what it holds is something else: damaged, or put there by who may not.
var ErrOther = errors.New("the store holds something else under that name")

// Depot is a fleet's part of a store. It may be used by several goroutines.
type Depot struct{ Bucket bucket.Bucket }

// Read gives a document, as it lies there: nothing was verified. version is what the caller has, "": nothing. Errors: bucket.ErrUnchanged, without a body; bucket.ErrNotFound; bucket.ErrTooLarge for more than signed.BytesMax.
func (d Depot) Read(ctx context.Context, name, version string) (body []byte, newer string, err error) {
	return d.Bucket.GetNewer(bucket.WithBytesMax(ctx, signed.BytesMax), name, version)
}

// Advance walks the chain of roots from the one that is trusted, until there is no next: for each, keep makes it durable before it counts for anything else. A root that is refused ends the walk, as does an error of keep: the trust has
// not moved then. A fleet whose root has not changed costs one request. What was refused is given with the error.
func (d Depot) Advance(ctx context.Context, t *signed.Trust, keep func(version uint64, envelope []byte) error) (refused []byte, err error) {
	for {
		body, _, err := d.Read(ctx, Root(t.Version()+1), "")
		if errors.Is(err, bucket.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		next, err := signed.NewTrust(t.Envelope())
		if err == nil {
			err = next.Advance(body)
		}
		if err != nil {
			return body, fmt.Errorf("root %d: %w", t.Version()+1, err)
		}
		if err := keep(next.Version(), body); err != nil {
			return nil, err
		}
		if err := t.Advance(body); err != nil {
			return body, err
		}
	}
}

// Release gives a verified release of the trusted fleet, by the sha256 of its payload, and its envelope. Errors: those of Read, signed's, document.ErrForm, ErrOther.
func (d Depot) Release(ctx context.Context, t *signed.Trust, sha string) (*document.Release, []byte, error) {
	body, _, err := d.Read(ctx, Release(sha), "")
	if err != nil {
		return nil, nil, fmt.Errorf("release %.12s: %w", sha, err)
	}
	r, err := TakeRelease(t, sha, body)
	if err != nil {
		return nil, nil, err
	}
	return r, body, nil
}

// TakeRelease is the release of what lies under its name. Errors: signed's and document's, ErrOther.
func TakeRelease(t *signed.Trust, sha string, body []byte) (*document.Release, error) {
	payload, err := t.Verify(body, signed.TypeRelease)
	if err != nil {
		return nil, fmt.Errorf("release %.12s: %w", sha, err)
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != sha {
		return nil, fmt.Errorf("release %.12s: %w: its payload has the sha256 %x", sha, ErrOther, sum)
	}
	r, err := document.DecodeRelease(payload)
	if err != nil {
		return nil, err
	}
	if r.Fleet != t.Fleet() {
		return nil, fmt.Errorf("release %.12s: %w: it is of fleet %s, and the root of %s", sha, ErrOther, r.Fleet, t.Fleet())
	}
	return r, nil
}

// Get gives a piece of an artifact, verified. It is upgrade.Chunks. Errors: those of Read, with ChunkMax; ErrOther.
func (d Depot) Get(ctx context.Context, sha string) ([]byte, error) {
	b, _, err := d.Bucket.Get(bucket.WithBytesMax(ctx, ChunkMax), Chunk(sha))
	if err != nil {
		return nil, fmt.Errorf("piece %.12s: %w", sha, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != sha {
		return nil, fmt.Errorf("piece %.12s: %w", sha, ErrOther)
	}
	return b, nil
}
