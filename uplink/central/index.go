package central

import (
	"crypto/sha256"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Ref names an object that is called by its sha.
type Ref struct {
	_     struct{} `cbor:",toarray"`
	SHA   SHA
	Bytes uint64 // as stored
	Size  uint64 // unpacked
}

// Frame is a sorted run of entries: the base of a chain, or a delta.
type Frame struct {
	_          struct{} `cbor:",toarray"`
	Serial     uint64   // of the upload that brought it
	Checkpoint uint64   // whose state, or whose changes up to it
	Entries    uint64
	Refs       []Ref
}

func (f *Frame) bytes() (n uint64) {
	for _, r := range f.Refs {
		n += r.Bytes
	}
	return n
}

// index holds frames that are not in a manifest any more, and names the index before it.
type index struct {
	_      struct{} `cbor:",toarray"`
	Before []byte   // SHA; empty: none
	Frames []Frame  // oldest first
}

const (
	indexMagic   = "WSCI"
	indexVersion = 1
	// refsMax is how many references a manifest has itself.
	refsMax = 16
	// framesMax bounds a chain: fetching one asks for at least one object per frame.
	framesMax = 2048
)

var (
	encoding = must(cbor.EncOptions{Sort: cbor.SortCoreDeterministic}.EncMode())
	decoding = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1 << 18, MaxMapPairs: 64, MaxNestedLevels: 8,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return v
}

// refs is how many references it has.
func (x *index) refs() (n int) {
	for _, f := range x.Frames {
		n += len(f.Refs)
	}
	return n
}

func (x *index) encode(u Upload) ([]byte, SHA, error) {
	body, err := encoding.Marshal(x)
	if err != nil {
		return nil, SHA{}, fmt.Errorf("encode index: %w", err)
	}
	b := append(append([]byte(indexMagic), indexVersion), u[:]...)
	b = append(b, body...)
	return b, sha256.Sum256(b), nil
}

func decodeIndex(b []byte, want SHA) (*index, error) {
	if err := check(b, want); err != nil {
		return nil, err
	}
	body, err := unframe(b, indexMagic, indexVersion)
	if err != nil {
		return nil, err
	}
	x := &index{}
	if len(body) < 16 || decoding.Unmarshal(body[16:], x) != nil || len(x.Before) != 0 && len(x.Before) != len(SHA{}) {
		return nil, fmt.Errorf("%w: index", ErrDamaged)
	}
	return x, nil
}
