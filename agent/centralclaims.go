//go:build !nocentral

package agent

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

// bucketClaims are the claims in a bucket.
type bucketClaims struct {
	bucket  bucket.Bucket
	gateway string
	key     string // public, of whoever signs this device's manifests; "" none
	wall    func() int64
}

// openClaims is the central store of a config; nil when it has none. dates judges its certificates.
func openClaims(cfg *config.Config, gateway string, dates certtime.Now) (claims, error) {
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
	return &bucketClaims{bucket: b, gateway: gateway, key: central.FormatPublic(key.Public().(ed25519.PublicKey)), wall: func() int64 { return time.Now().UnixMilli() }}, nil
}

// Close drops idle connections.
func (b *bucketClaims) Close() error { return b.bucket.Close() }

// Check looks at the claim.
func (b *bucketClaims) Check(ctx context.Context, major uint32, board string) (*identity.Fenced, error) {
	c, err := central.HoldClaim(ctx, b.bucket, b.gateway, board, b.key, major, b.wall())
	if errors.Is(err, central.ErrFenced) {
		return &identity.Fenced{Major: c.Major, Board: c.Board, Where: fmt.Sprintf("the central store's claim of %s", b.gateway)}, nil
	}
	return nil, err
}

// Take takes a new major.
func (b *bucketClaims) Take(ctx context.Context, board string, min uint32) (uint32, error) {
	c, err := central.TakeClaim(ctx, b.bucket, b.gateway, board, b.key, min, b.wall())
	return c.Major, err
}

// uploadFence is asked before a head in the central store is moved.
func (a *Agent) uploadFence(ctx context.Context) error {
	by, err := a.claims.Check(ctx, a.identity.Major, a.board())
	if by != nil {
		a.fenceOff(by)
		return fmt.Errorf("%w: %s", central.ErrFenced, by.Why())
	}
	return err
}
