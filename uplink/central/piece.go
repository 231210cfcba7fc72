package central

import (
	"crypto/sha256"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	pieceMagic   = "WSCP"
	pieceVersion = 1
	pieceHeader  = 4 + 1 + 1 + 16
	// pieceBytes is where a piece is closed: small enough for a link that breaks every half minute, large enough to compress.
	pieceBytes = 128 << 10
	// pieceBytesMax bounds what is unpacked: one result may have 16 MiB.
	pieceBytesMax = 20 << 20

	flagAge = 1
)

// Seal encrypts what is stored; nil: it is not encrypted.
type Seal func(plain []byte) ([]byte, error)

// Unseal decrypts what was stored.
type Unseal func(stored []byte) ([]byte, error)

// Codec compresses and decompresses. It is used by any number of goroutines.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	// records unpacks what is shipped, of which a piece may be larger.
	records *zstd.Decoder
}

// NewCodec makes one. Its memory is that of a few pieces.
func NewCodec() (*Codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	c := &Codec{enc: enc}
	for limit, dec := range map[uint64]**zstd.Decoder{pieceBytesMax: &c.dec, recordsBytesMax: &c.records} {
		if *dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit), zstd.WithDecoderLowmem(true)); err != nil {
			return nil, fmt.Errorf("make zstd decoder: %w", err)
		}
	}
	return c, nil
}

// unpack decompresses at most limit bytes.
func unpack(dec *zstd.Decoder, b []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, fmt.Errorf("%w: zstd: %w", ErrDamaged, err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes unpacked", ErrDamaged, h.FrameContentSize)
	}
	plain, err := dec.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: zstd: %w", ErrDamaged, err)
	}
	if len(plain) > limit {
		return nil, fmt.Errorf("%w: %d bytes unpacked", ErrDamaged, len(plain))
	}
	return plain, nil
}

// Upload is the random number of an upload: it makes the names of its objects its own.
type Upload [16]byte

// pack makes the object of a piece.
func (c *Codec) pack(u Upload, plain []byte, seal Seal) ([]byte, Ref, error) {
	flags, payload := byte(0), c.enc.EncodeAll(plain, nil)
	if seal != nil {
		var err error
		if payload, err = seal(payload); err != nil {
			return nil, Ref{}, fmt.Errorf("encrypt piece: %w", err)
		}
		flags = flagAge
	}
	b := append(make([]byte, 0, pieceHeader+len(payload)), pieceMagic...)
	b = append(append(b, pieceVersion, flags), u[:]...)
	b = append(b, payload...)
	return b, Ref{SHA: sha256.Sum256(b), Bytes: uint64(len(b)), Size: uint64(len(plain))}, nil
}

// open gives the content of a piece that must be what ref says.
func (c *Codec) open(b []byte, ref Ref, unseal Unseal) ([]byte, error) {
	if err := check(b, ref.SHA); err != nil {
		return nil, err
	}
	payload, err := unframe(b, pieceMagic, pieceVersion)
	if err != nil {
		return nil, err
	}
	if len(payload) < pieceHeader-5 {
		return nil, fmt.Errorf("%w: ends within its header", ErrDamaged)
	}
	flags, payload := payload[0], payload[17:]
	switch {
	case flags&^flagAge != 0:
		return nil, fmt.Errorf("%w: flags %#x", ErrVersion, flags)
	case flags&flagAge != 0 && unseal == nil:
		return nil, fmt.Errorf("%w: give the identity that it is encrypted to", ErrEncrypted)
	case flags&flagAge != 0:
		if payload, err = unseal(payload); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEncrypted, err)
		}
	}
	plain, err := unpack(c.dec, payload, pieceBytesMax)
	if err == nil && uint64(len(plain)) != ref.Size {
		err = fmt.Errorf("%w: %d bytes unpacked, want %d", ErrDamaged, len(plain), ref.Size)
	}
	return plain, err
}

// check compares an object with its name.
func check(b []byte, want SHA) error {
	if got := SHA(sha256.Sum256(b)); got != want {
		return fmt.Errorf("%w: its sha256 is %s (%d bytes)", ErrDamaged, got, len(b))
	}
	return nil
}

// unframe takes magic and version off an object.
func unframe(b []byte, magic string, version byte) ([]byte, error) {
	if len(b) < len(magic)+1 || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrDamaged, magic)
	}
	if v := b[len(magic)]; v != version {
		return nil, fmt.Errorf("%w: version %d, this weir reads %d", ErrVersion, v, version)
	}
	return b[len(magic)+1:], nil
}
