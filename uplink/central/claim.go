package central

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/uplink/bucket"
)

// Claim says who may speak for a gateway: the fencing token's major is given out here, by compare-and-swap (RULES 27). Object GATEWAY/claim, JSON. A claim only ever rises;
// what a store forgets, its holder puts back when it next looks.
type Claim struct {
	Version   int    `json:"version"`
	Major     uint32 `json:"major"` // 0: nobody has claimed the gateway
	Board     string `json:"board"`
	Key       string `json:"key,omitempty"` // ed25519, public, base64: who signs this gateway's manifests
	ClaimedMs int64  `json:"claimed_ms"`    // by the claimer's clock; data, not order
	By        string `json:"by"`            // by chance: a claimer knows its own write by it when the answer was lost
}

const claimVersion = 1

// ErrClaim: the claim is damaged, or was written by a newer weir. Nothing is known of who holds the gateway.
var ErrClaim = errors.New("the gateway's claim is not readable")

// claimTries bounds how often a claim is tried that others change meanwhile.
const claimTries = 8

// ReadClaim gives the claim of a gateway and its version for Replace. Major 0 and version "": there is none.
func ReadClaim(ctx context.Context, b bucket.Bucket, gateway string) (Claim, string, error) {
	body, version, err := b.Get(bucket.WithBytesMax(ctx, smallBytesMax), NamesOf(gateway).Claim())
	if errors.Is(err, bucket.ErrNotFound) {
		return Claim{}, "", nil
	}
	if errors.Is(err, bucket.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrClaim, err)
	}
	if err != nil {
		return Claim{}, "", fmt.Errorf("read claim of %s: %w", gateway, err)
	}
	c, err := decodeClaim(body)
	if err != nil {
		return Claim{}, "", fmt.Errorf("claim %s in the central store: %w", NamesOf(gateway).Claim(), err)
	}
	return c, version, nil
}

// claimAdvice is for whoever finds a claim that no device writes.
const claimAdvice = "see who else writes to the store, and remove it there"

func decodeClaim(body []byte) (c Claim, err error) {
	if err := json.Unmarshal(body, &c); err != nil {
		return Claim{}, fmt.Errorf("%w: %w: %s", ErrClaim, err, claimAdvice)
	}
	switch {
	case c.Version > claimVersion:
		return Claim{}, fmt.Errorf("%w: version %d, this weir knows %d", ErrClaim, c.Version, claimVersion)
	case c.Version < 1 || c.Major == 0 || c.Board == "":
		return Claim{}, fmt.Errorf("%w: it names nobody: %s", ErrClaim, claimAdvice)
	case c.Major > majorMax: // it must fence nobody, and there is no major behind it
		return Claim{}, fmt.Errorf("%w: major %d was not given out by a device: %s", ErrClaim, c.Major, claimAdvice)
	case len(c.Board) > textsMax || !printable(c.Board) || !printable(c.Key) || !printable(c.By):
		return Claim{}, fmt.Errorf("%w: board %.64q: %s", ErrClaim, c.Board, claimAdvice)
	}
	return c, nil
}

// TakeClaim claims a gateway for a board under a major above that of the claim that stands, and at least minMajor. It is durable on return; who held the gateway before
// is fenced from then on. Called again it takes one more major.
func TakeClaim(ctx context.Context, b bucket.Bucket, gateway, board, key string, minMajor uint32, wallMs int64) (Claim, error) {
	if err := b.Prepare(ctx, NamesOf(gateway).Dir()); err != nil {
		return Claim{}, fmt.Errorf("claim %s: %w", gateway, err)
	}
	next := Claim{Version: claimVersion, Board: board, Key: key, ClaimedMs: wallMs, By: chance()}
	var last error
	for range claimTries {
		stands, version, err := ReadClaim(ctx, b, gateway)
		if err != nil {
			return Claim{}, err
		}
		if stands.By == next.By {
			return stands, nil // an earlier try was carried out
		}
		if next.Major = max(minMajor, stands.Major+1); next.Major > majorMax {
			return Claim{}, fmt.Errorf("claim %s: %w: there is no major above %d", gateway, ErrClaim, uint64(majorMax))
		}
		if last = put(ctx, b, gateway, version, &next); last == nil {
			return next, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return Claim{}, fmt.Errorf("claim %s: %w", gateway, last)
}

func put(ctx context.Context, b bucket.Bucket, gateway, version string, c *Claim) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = b.Replace(ctx, NamesOf(gateway).Claim(), version, append(body, '\n'))
	return err
}

// Standing is what a claim means to a device.
type Standing uint8

// The standings.
const (
	Held  Standing = iota // it is this device's
	Free                  // nobody's, or of an earlier major: this device may put its own
	Taken                 // another device's
)

// Judge is pure: what the claim that stands means to a device with a major on a board.
func (c *Claim) Judge(major uint32, board string) Standing {
	switch {
	case c.Major > major || c.Major == major && c.Board != board:
		return Taken
	case c.Major == major:
		return Held
	}
	return Free
}

// HoldClaim looks at the claim and, where it is free, puts this device's. ErrFenced comes with the claim of whoever holds the gateway. Repeating it is harmless.
func HoldClaim(ctx context.Context, b bucket.Bucket, gateway, board, key string, major uint32, wallMs int64) (Claim, error) {
	stands, version, err := ReadClaim(ctx, b, gateway)
	if err != nil {
		return Claim{}, err
	}
	switch stands.Judge(major, board) {
	case Taken:
		return stands, fmt.Errorf("%w: major %d, board %s", ErrFenced, stands.Major, stands.Board)
	case Held:
		if key == "" || stands.Key == key {
			return stands, nil
		}
	case Free:
		if err := b.Prepare(ctx, NamesOf(gateway).Dir()); err != nil {
			return Claim{}, fmt.Errorf("claim %s: %w", gateway, err)
		}
	}
	mine := Claim{Version: claimVersion, Major: major, Board: board, Key: key, ClaimedMs: wallMs, By: chance()}
	if err := put(ctx, b, gateway, version, &mine); err != nil {
		return Claim{}, fmt.Errorf("claim %s: %w", gateway, err) // changed meanwhile, or not answered: the next look tells
	}
	return mine, nil
}

func chance() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
