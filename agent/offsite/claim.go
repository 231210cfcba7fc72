package offsite

import (
	"context"

	"github.com/weirstream/weir/agent/identity"
)

// Claims is what the central store tells of who may speak for this gateway.
type Claims interface {
	// Check reads the claim, and takes it when nobody has, or when it is of an earlier life of this device. by is not nil when another device has it.
	Check(ctx context.Context, major uint32, board string) (by *identity.Fenced, err error)
	// Take takes a new major, at least min.
	Take(ctx context.Context, board string, min uint32) (uint32, error)
	Close() error
}
