package central

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weirstream/weir/pipeline"
)

// Manifest describes one uploaded checkpoint. FORMAT.md has its form.
type Manifest struct {
	Gateway string `cbor:"gateway"`
	Name    string `cbor:"name"` // of the pipeline in the config
	UUID    UUID   `cbor:"uuid"`
	Journal string `cbor:"journal"` // in which Position counts
	Writer  string `cbor:"writer"`  // version of weir; informs
	Upload  Upload `cbor:"upload"`

	Major  uint32 `cbor:"major"`
	Minor  uint32 `cbor:"minor"`
	Serial uint64 `cbor:"serial"`

	Generation uint64 `cbor:"generation"`
	Checkpoint uint64 `cbor:"checkpoint"`
	Position   uint64 `cbor:"position"`
	ElapsedNs  int64  `cbor:"elapsed_ns"`
	CreatedMs  int64  `cbor:"created_ms"`
	Trusted    bool   `cbor:"trusted"`
	Ledger     []byte `cbor:"ledger"`

	Plan  Ref    `cbor:"plan"`
	Sinks []Sink `cbor:"sinks"`

	Index      SHA     `cbor:"index"`
	Indexed    uint64  `cbor:"indexed"`
	Frames     []Frame `cbor:"frames"`
	BaseBytes  uint64  `cbor:"base_bytes"`
	DeltaBytes uint64  `cbor:"delta_bytes"`
	Previous   SHA     `cbor:"previous"`
}

// Sink is where a stream stood. Results (Confirmed, Seq] are in Parts.
type Sink struct {
	_              struct{} `cbor:",toarray"`
	UID            string
	Generation     uint64
	Seq            uint64
	Chain          uint64
	Confirmed      uint64
	ChainConfirmed uint64
	Parts          []Part
}

// Mark is the sink's mark.
func (s *Sink) Mark() pipeline.SinkMark {
	return pipeline.SinkMark{UID: s.UID, Generation: s.Generation, Seq: s.Seq, Chain: s.Chain}
}

// Part is a piece of results.
type Part struct {
	_           struct{} `cbor:",toarray"`
	First, Last uint64
	Ref         Ref
}

// Order is what heads move forward in.
type Order struct {
	Major, Minor uint32
	Serial       uint64
}

// Compare is -1, 0 or 1.
func (o Order) Compare(p Order) int {
	for _, c := range [...][2]uint64{{uint64(o.Major), uint64(p.Major)}, {uint64(o.Minor), uint64(p.Minor)}, {o.Serial, p.Serial}} {
		switch {
		case c[0] < c[1]:
			return -1
		case c[0] > c[1]:
			return 1
		}
	}
	return 0
}

// Order of the manifest.
func (m *Manifest) Order() Order { return Order{m.Major, m.Minor, m.Serial} }

// refs are the objects that the manifest names itself.
func (m *Manifest) refs() []Ref {
	all := []Ref{m.Plan}
	for _, s := range m.Sinks {
		for _, p := range s.Parts {
			all = append(all, p.Ref)
		}
	}
	for _, f := range m.Frames {
		all = append(all, f.Refs...)
	}
	return all
}

const (
	manifestMagic   = "WSCM"
	manifestVersion = 1
	manifestMax     = 16 << 20
	manifestContext = "weir central manifest 1\n"
	manifestHeader  = 5 + ed25519.PublicKeySize + ed25519.SignatureSize
)

// encode signs a manifest.
func (m *Manifest) encode(c *Codec, key ed25519.PrivateKey) ([]byte, SHA, error) {
	body, err := encoding.Marshal(m)
	if err != nil {
		return nil, SHA{}, fmt.Errorf("encode manifest: %w", err)
	}
	packed := c.enc.EncodeAll(body, nil)
	b := append([]byte(manifestMagic), manifestVersion)
	b = append(b, key.Public().(ed25519.PublicKey)...)
	b = append(b, ed25519.Sign(key, append([]byte(manifestContext), packed...))...)
	b = append(b, packed...)
	return b, sha256.Sum256(b), nil
}

// Trust says which keys are trusted; nil: any, whose signature must still hold.
type Trust []ed25519.PublicKey

// signed gives what a manifest says once its signature has held, and the key.
func signed(c *Codec, b []byte, trust Trust, plant *planted) (*Manifest, ed25519.PublicKey, error) {
	rest, err := unframe(b, manifestMagic, manifestVersion)
	if err != nil {
		return nil, nil, err
	}
	if len(b) < manifestHeader {
		return nil, nil, fmt.Errorf("%w: manifest of %d bytes", ErrDamaged, len(b))
	}
	key, rest := ed25519.PublicKey(bytes.Clone(rest[:ed25519.PublicKeySize])), rest[ed25519.PublicKeySize:]
	signature, packed := rest[:ed25519.SignatureSize], rest[ed25519.SignatureSize:]
	known := trust == nil || slices.ContainsFunc(trust, func(k ed25519.PublicKey) bool { return k.Equal(key) })
	if !plant.unsigned && !(known && ed25519.Verify(key, append([]byte(manifestContext), packed...), signature)) {
		return nil, key, fmt.Errorf("%w: key %x", ErrSignature, key)
	}
	body, err := unpack(c.dec, packed, manifestMax)
	if err != nil {
		return nil, key, err
	}
	m := &Manifest{}
	if err := decoding.Unmarshal(body, m); err != nil {
		return nil, key, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	return m, key, m.check()
}

// check refuses what no uploader writes.
func (m *Manifest) check() error {
	sinks := map[string]bool{}
	for _, s := range m.Sinks {
		if s.UID == "" || sinks[s.UID] || s.Confirmed > s.Seq {
			return fmt.Errorf("%w: manifest: sink %q", ErrDamaged, s.UID)
		}
		sinks[s.UID] = true
	}
	if len(m.Gateway)+len(m.Name)+len(m.Journal)+len(m.Writer) > textsMax || !printable(m.Gateway) || !printable(m.Name) || !printable(m.Writer) {
		return fmt.Errorf("%w: manifest: names %.64q, %.64q", ErrDamaged, m.Gateway, m.Name)
	}
	if m.Serial == 0 || m.Serial > serialMax || m.Major > majorMax || m.Indexed > framesMax+1 || (m.Indexed == 0) != (m.Index == SHA{}) || m.ElapsedNs < 0 {
		return fmt.Errorf("%w: manifest", ErrDamaged)
	}
	return nil
}

// textsMax bounds the names in a manifest, together.
const textsMax = 4096

// printable says whether a text can be shown on a terminal: who may write to the store may have written it.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// bound refuses a manifest of another gateway or pipeline.
func (m *Manifest) bound(gateway string, id UUID) error {
	if m.Gateway != gateway || m.UUID != id {
		return fmt.Errorf("%w: of gateway %q, pipeline %s (%s)", ErrForeign, m.Gateway, m.Name, m.UUID)
	}
	return nil
}

// planted are faults that tests must find.
type planted struct {
	unsigned    bool // a signature need not hold
	headFirst   bool // the head is moved before the objects are put
	blind       bool // what was put is not read back
	collectDeaf bool // collection deletes what the newest manifest does not name, without reading the others
	young       bool // collection takes what is younger than 24 h
	once        bool // collection deletes at the first sight
	oneByOne    bool // fetching waits for each object before it asks for the next
	fenceless   bool // the claim is not asked
	holes       bool // shipped records with a hole are taken
	keepNone    bool // collection deletes shipped records that a retained upload needs
	ownAlone    bool // collection deletes those that an upload of a pipeline needs that left the config
	keepAll     bool // all shipped records are in memory at once
	trusting    bool // a chain that was confirmed is not looked for, though the store has forgotten its head
}
