//go:build !nocentral

package offsite

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/pipeline/certtime"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// BucketClaims are the claims in a bucket.
type BucketClaims struct {
	Bucket  bucket.Bucket
	Gateway string
	key     string // public, of whoever signs this device's manifests; "" none
	Wall    func() int64
}

// OpenClaims is the central store of a config; nil when it has none. dates judges its certificates.
func OpenClaims(cfg *config.Config, gateway string, dates certtime.Now) (Claims, error) {
	if cfg.Central.URL.Value == "" {
		return nil, nil
	}
	key, err := SigningKey(cfg)
	if err != nil {
		return nil, err
	}
	b, err := OpenCentral(cfg, dates)
	if err != nil {
		return nil, err
	}
	return &BucketClaims{Bucket: b, Gateway: gateway, key: central.FormatPublic(key.Public().(ed25519.PublicKey)), Wall: func() int64 { return time.Now().UnixMilli() }}, nil
}

// Close drops idle connections.
func (b *BucketClaims) Close() error { return b.Bucket.Close() }

// Check looks at the claim.
func (b *BucketClaims) Check(ctx context.Context, major uint32, board string) (*identity.Fenced, error) {
	c, err := central.HoldClaim(ctx, b.Bucket, b.Gateway, board, b.key, major, b.Wall())
	if errors.Is(err, central.ErrFenced) {
		return &identity.Fenced{Major: c.Major, Board: c.Board, Where: fmt.Sprintf("the central store's claim of %s", b.Gateway)}, nil
	}
	return nil, err
}

// Take takes a new major.
func (b *BucketClaims) Take(ctx context.Context, board string, min uint32) (uint32, error) {
	c, err := central.TakeClaim(ctx, b.Bucket, b.Gateway, board, b.key, min, b.Wall())
	return c.Major, err
}
