package central

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Head names a pipeline's newest uploaded checkpoint.
type Head struct {
	Version     int    `json:"version"`
	Manifest    string `json:"manifest"`
	Serial      uint64 `json:"serial"`
	Incarnation string `json:"incarnation"`
	Generation  uint64 `json:"generation"`
	Position    uint64 `json:"position"`
	WallMs      int64  `json:"wall_ms"`
}

const headVersion = 1

const (
	// serialMax is above any number of uploads: what is above it was not written by a device, and counting on from it could overflow.
	serialMax = 1 << 62
	// positionMax is the same for records of a journal, which goes on behind what a replacement has taken.
	positionMax = 1 << 62
	// serialJump is how far another writer of this incarnation can have gone on.
	serialJump = 1 << 32
	// majorMax is the same for incarnations: a gateway has one major per board that it had.
	majorMax = 1 << 31
)

func headOf(m *Manifest, sha SHA) Head {
	return Head{Version: headVersion, Manifest: sha.String(), Serial: m.Serial, Incarnation: fmt.Sprintf("%d.%d", m.Major, m.Minor),
		Generation: m.Generation, Position: m.Position, WallMs: m.CreatedMs}
}

func (h Head) encode() ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode head: %w", err)
	}
	return append(b, '\n'), nil
}

// decodeHead gives a head, the sha of its manifest and its place.
func decodeHead(b []byte) (h Head, sha SHA, o Order, err error) {
	if err := json.Unmarshal(b, &h); err != nil {
		return h, sha, o, fmt.Errorf("%w: head: %w", ErrDamaged, err)
	}
	if h.Version < 1 {
		return h, sha, o, fmt.Errorf("%w: head without a version", ErrDamaged)
	}
	if h.Version > headVersion {
		return h, sha, o, fmt.Errorf("%w: head of version %d", ErrVersion, h.Version)
	}
	o.Serial = h.Serial
	_, err = fmt.Sscanf(h.Incarnation, "%d.%d", &o.Major, &o.Minor)
	if err == nil && (h.Incarnation != fmt.Sprintf("%d.%d", o.Major, o.Minor) || o.Major > majorMax) || h.Serial > serialMax {
		return h, SHA{}, Order{}, fmt.Errorf("%w: head: upload %d of incarnation %.24q: no device has written that", ErrDamaged, h.Serial, h.Incarnation)
	}
	if n, derr := hex.Decode(sha[:], []byte(h.Manifest[:min(len(h.Manifest), 64)])); derr != nil || n != len(sha) || len(h.Manifest) != 64 || err != nil || h.Serial == 0 {
		return h, SHA{}, Order{}, fmt.Errorf("%w: head", ErrDamaged)
	}
	return h, sha, o, nil
}
