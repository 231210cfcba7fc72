package central

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Spool keeps, on the device, what is not in the store yet, for one pipeline. Names have no slash.
type Spool interface {
	// Read gives a file; a missing one is fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// Write puts a file in the place of what is there, whole or not at all; durable on return.
	Write(name string, b []byte) error
	// Remove removes a file. One that is gone is no error.
	Remove(name string) error
	// List gives the names of all files.
	List() ([]string, error)
}

const (
	recordName    = "record"
	recordVersion = 1
)

// record is what a device notes of a pipeline: the newest manifest that is in the store, and the upload under way.
type record struct {
	Version   uint64 `cbor:"version"`
	Last      []byte `cbor:"last"` // the manifest as stored; empty: none
	LastSHA   SHA    `cbor:"last_sha"`
	PlanSum   SHA    `cbor:"plan_sum"` // sha256 of the plan that Last names, unpacked
	Draft     *draft `cbor:"draft"`    // nil: nothing is under way
	Built     SHA    `cbor:"built"`    // manifest of the draft; its bytes are in the spool
	Floor     uint64 `cbor:"floor"`    // serials up to it were seen in the store
	WantBase  string `cbor:"want_base"`
	UploadMs  int64  `cbor:"upload_ms"` // Unix, when Last was confirmed; informs
	lastParse *Manifest
}

// draft is an upload whose manifest is not made yet.
type draft struct {
	M       Manifest `cbor:"m"`    // without serial, previous, index; Frames is the new frame alone
	Base    bool     `cbor:"base"` // its frame begins a chain
	PlanSum SHA      `cbor:"plan_sum"`
	AsOfMs  int64    `cbor:"as_of_ms"`
}

// last is the newest manifest in the store; nil: none.
func (r *record) last() *Manifest { return r.lastParse }

func (r *record) encode() ([]byte, error) {
	r.Version = recordVersion
	b, err := encoding.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return b, nil
}

// readRecord gives what was noted. A missing or damaged record is an empty one, and why: it costs a new base.
func readRecord(s Spool, c *Codec, key ed25519.PrivateKey) (*record, error) {
	b, err := s.Read(recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return &record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	r := &record{}
	if err := decoding.Unmarshal(b, r); err != nil || r.Version != recordVersion {
		return &record{WantBase: "the notes on the device were damaged"}, nil
	}
	if len(r.Last) > 0 {
		err := check(r.Last, r.LastSHA)
		if err == nil {
			r.lastParse, _, err = signed(c, r.Last, Trust{key.Public().(ed25519.PublicKey)}, &planted{})
		}
		if err != nil { // a new key: the chain goes on under it, by a new base
			r.Last, r.LastSHA, r.lastParse, r.Draft, r.Built = nil, SHA{}, nil, nil, SHA{}
			r.WantBase = "the key of this device has changed"
		}
	}
	return r, nil
}

// clean removes from the spool what no upload under way needs.
func clean(s Spool, needed map[string]bool) error {
	names, err := s.List()
	if err != nil {
		return err
	}
	for _, n := range names {
		kind, _, ok := strings.Cut(n, "-")
		if ok && !needed[n] && (Kind(kind) == KindObject || Kind(kind) == KindIndex || Kind(kind) == KindManifest) {
			if err := s.Remove(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func spoolName(k Kind, s SHA) string { return string(k) + "-" + s.String() }
