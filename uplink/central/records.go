package central

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

const (
	recordsMagic   = "WSCR"
	recordsVersion = 1
	recordsContext = "weir central records 1\n"
	// recordsHeader is magic, version, flags, key and signature; behind them are upload, length of the head, head and payload.
	recordsHeader  = 4 + 1 + 1 + ed25519.PublicKeySize + ed25519.SignatureSize
	recordsHeadMax = 64 << 10
	// recordsBytesMax bounds what is unpacked: the longest record that a journal takes (64 MiB, store/log), and a piece that was not closed yet before it.
	recordsBytesMax = 64<<20 + 1<<20
)

// recordsHead says which records a piece of a journal has, and which piece is before it.
type recordsHead struct {
	Gateway string `cbor:"gateway"`
	Journal string `cbor:"journal"`
	Major   uint32 `cbor:"major"`
	Minor   uint32 `cbor:"minor"`
	First   uint64 `cbor:"first"`
	Last    uint64 `cbor:"last"`
	Before  []byte `cbor:"before"` // SHA of the piece that ends at First-1; empty: a chain begins
	WallMs  int64  `cbor:"wall_ms"`
	Size    uint64 `cbor:"size"` // unpacked
}

// stretch is records under one stamp. Without entries: positions that the journal left out.
type stretch struct {
	_           struct{} `cbor:",toarray"`
	First, Last uint64
	Elapsed     int64
	Wall        int64
	Trusted     bool
	Entries     []shippedEntry
}

type shippedEntry struct {
	_               struct{} `cbor:",toarray"`
	Kind, QoS       uint8
	Retain, Dup     bool
	PacketID        uint16
	Session, Source string
	Topic, Payload  []byte
}

// runOf takes a block apart. A block of positions that were left out has one gap entry for all of them.
func runOf(b *pipeline.Block) stretch {
	r := stretch{First: uint64(b.First), Last: uint64(b.Last)}
	if len(b.Entries) > 0 {
		s := b.Entries[0].Stamp
		r.Elapsed, r.Wall, r.Trusted = s.Elapsed, s.Wall, s.Trusted
	}
	if uint64(len(b.Entries)) != r.Last-r.First+1 {
		return r
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		r.Entries = append(r.Entries, shippedEntry{Kind: uint8(e.Kind), QoS: e.QoS, Retain: e.Retain, Dup: e.Dup, PacketID: e.PacketID,
			Session: e.Session, Source: e.Source, Topic: e.Topic, Payload: e.Payload})
	}
	return r
}

// ShippedBytes is about what a block takes in a piece, unpacked: the names and numbers of records without a payload count too.
func ShippedBytes(b *pipeline.Block) int {
	n := 32
	for i := range b.Entries {
		e := &b.Entries[i]
		n += 16 + len(e.Session) + len(e.Source) + len(e.Topic) + len(e.Payload)
	}
	return n
}

// check refuses what no journal has: it would be written into one that cannot be read then.
func (r *stretch) check() error {
	for i := range r.Entries {
		switch e := &r.Entries[i]; {
		case pipeline.EntryKind(e.Kind) > pipeline.EntryAnchor:
			return fmt.Errorf("%w: record %d of kind %d", ErrVersion, r.First+uint64(i), e.Kind)
		case pipeline.EntryKind(e.Kind) < pipeline.EntryMessage || e.QoS > 2:
			return fmt.Errorf("%w: record %d of kind %d, quality of service %d", ErrDamaged, r.First+uint64(i), e.Kind, e.QoS)
		}
	}
	return nil
}

// block is the inverse of runOf; positions that were left out have no entry.
func (r *stretch) block() *pipeline.Block {
	b := &pipeline.Block{First: pipeline.Position(r.First), Last: pipeline.Position(r.Last)}
	for i := range r.Entries {
		e := &r.Entries[i]
		b.Entries = append(b.Entries, pipeline.Entry{Pos: b.First + pipeline.Position(i), Stamp: r.stamp(), Kind: pipeline.EntryKind(e.Kind), QoS: e.QoS, Retain: e.Retain,
			Dup: e.Dup, PacketID: e.PacketID, Session: e.Session, Source: e.Source, Topic: e.Topic, Payload: e.Payload})
	}
	return b
}

func (r *stretch) stamp() pipeline.Stamp {
	return pipeline.Stamp{Elapsed: r.Elapsed, Wall: r.Wall, Trusted: r.Trusted}
}

// packRecords makes the object of a piece; h has all but Size.
func (c *Codec) packRecords(h recordsHead, u Upload, runs []stretch, key ed25519.PrivateKey, seal Seal) ([]byte, SHA, error) {
	plain, err := encoding.Marshal(runs)
	if err != nil {
		return nil, SHA{}, fmt.Errorf("encode records: %w", err)
	}
	if len(plain) > recordsBytesMax {
		return nil, SHA{}, fmt.Errorf("%w: records %d to %d have %d bytes, at most %d can be read again", ErrDamaged, h.First, h.Last, len(plain), recordsBytesMax)
	}
	flags, payload := byte(0), c.enc.EncodeAll(plain, nil)
	if seal != nil {
		if payload, err = seal(payload); err != nil {
			return nil, SHA{}, fmt.Errorf("encrypt records: %w", err)
		}
		flags = flagAge
	}
	h.Size = uint64(len(plain))
	head, err := encoding.Marshal(&h)
	if err != nil {
		return nil, SHA{}, fmt.Errorf("encode head of records: %w", err)
	}
	body := append(binary.LittleEndian.AppendUint32(bytes.Clone(u[:]), uint32(len(head))), head...)
	b, sha := signedRecords(key, flags, append(body, payload...))
	return b, sha, nil
}

// signedRecords makes the object of what its signature is over.
func signedRecords(key ed25519.PrivateKey, flags byte, body []byte) ([]byte, SHA) {
	b := append([]byte(recordsMagic), recordsVersion, flags)
	b = append(b, key.Public().(ed25519.PublicKey)...)
	b = append(b, ed25519.Sign(key, recordsSigned(flags, body))...)
	b = append(b, body...)
	return b, sha256.Sum256(b)
}

func recordsSigned(flags byte, body []byte) []byte {
	return append(append([]byte(recordsContext), flags), body...)
}

// openedRecords is a piece whose signature has held; payload is as stored.
type openedRecords struct {
	recordsHead
	flags   byte
	payload []byte
	name    Name   // where it is
	bytes   uint64 // of the payload, which may be let go
}

func (c *Codec) openRecords(b []byte, sha SHA, trust Trust) (*openedRecords, error) {
	if err := check(b, sha); err != nil {
		return nil, err
	}
	if _, err := unframe(b, recordsMagic, recordsVersion); err != nil {
		return nil, err
	}
	if len(b) < recordsHeader+16+4 {
		return nil, fmt.Errorf("%w: ends within its header", ErrDamaged)
	}
	o := &openedRecords{flags: b[5]}
	key := ed25519.PublicKey(bytes.Clone(b[6 : 6+ed25519.PublicKeySize]))
	signature, body := b[6+ed25519.PublicKeySize:recordsHeader], b[recordsHeader:]
	known := trust == nil || slices.ContainsFunc(trust, func(k ed25519.PublicKey) bool { return k.Equal(key) })
	if !known || !ed25519.Verify(key, recordsSigned(o.flags, body), signature) {
		return nil, fmt.Errorf("%w: key %x", ErrSignature, key)
	}
	n := binary.LittleEndian.Uint32(body[16:])
	body = body[20:]
	if n > recordsHeadMax || uint64(n) > uint64(len(body)) || decoding.Unmarshal(body[:n], &o.recordsHead) != nil {
		return nil, fmt.Errorf("%w: head of records", ErrDamaged)
	}
	if o.First == 0 || o.First > o.Last || o.Last > positionMax || len(o.Before) != 0 && len(o.Before) != len(SHA{}) {
		return nil, fmt.Errorf("%w: head of records %d to %d", ErrDamaged, o.First, o.Last)
	}
	if o.flags&^flagAge != 0 {
		return nil, fmt.Errorf("%w: flags %#x", ErrVersion, o.flags)
	}
	o.payload = body[n:]
	return o, nil
}

// before is the piece before; the zero value: none.
func (o *openedRecords) before() (s SHA) {
	copy(s[:], o.Before)
	return s
}

// runs unpacks a piece. Its runs have every position from First to Last once.
func (c *Codec) runs(o *openedRecords, unseal Unseal) (all []stretch, err error) {
	payload := o.payload
	if o.flags&flagAge != 0 {
		if unseal == nil {
			return nil, fmt.Errorf("%w: give the identity that it is encrypted to", ErrEncrypted)
		}
		if payload, err = unseal(payload); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEncrypted, err)
		}
	}
	plain, err := unpack(c.records, payload, recordsBytesMax)
	if err != nil {
		return nil, err
	}
	if uint64(len(plain)) != o.Size || decoding.Unmarshal(plain, &all) != nil {
		return nil, fmt.Errorf("%w: records %d to %d", ErrDamaged, o.First, o.Last)
	}
	next := o.First
	for i := range all {
		r := &all[i]
		if r.First != next || r.Last < r.First || r.Last > o.Last || len(r.Entries) > 0 && uint64(len(r.Entries)) != r.Last-r.First+1 {
			return nil, fmt.Errorf("%w: records %d to %d, at %d", ErrDamaged, o.First, o.Last, next)
		}
		if err := r.check(); err != nil {
			return nil, err
		}
		next = r.Last + 1
	}
	if next != o.Last+1 {
		return nil, fmt.Errorf("%w: records %d to %d end at %d", ErrDamaged, o.First, o.Last, next-1)
	}
	return all, nil
}
