package log

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codecWindow is zstd's window: frames are small, and each encoder's memory grows with it.
const codecWindow = 128 << 10

// Codec packs and unpacks frame bodies with zstd. One may serve any number of logs, from several goroutines at once: its memory, some
// 300 KiB for each of up to two at work in either direction, then counts once, not per log. It is taken at first use, so that one that is never
// needed costs nothing. Nothing has to be closed.
type Codec struct {
	enc func() *zstd.Encoder
	dec func() *zstd.Decoder
}

// NewCodec makes a codec.
func NewCodec() *Codec {
	atOnce := min(2, runtime.GOMAXPROCS(0))
	return &Codec{
		enc: sync.OnceValue(func() *zstd.Encoder {
			enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(codecWindow),
				zstd.WithEncoderConcurrency(atOnce), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
			if err != nil {
				panic("BUG: zstd encoder options: " + err.Error())
			}
			return enc
		}),
		dec: sync.OnceValue(func() *zstd.Decoder {
			dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(atOnce), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(bodyBytesMax))
			if err != nil {
				panic("BUG: zstd decoder options: " + err.Error())
			}
			return dec
		}),
	}
}

// Pack appends the packed form of raw, which may be longer than raw.
func (c *Codec) Pack(dst, raw []byte) []byte { return c.enc().EncodeAll(raw, dst) }

// Unpack appends what was packed, at most 64 MiB and some. Frames carry no checksum of their own: the caller's covers them.
func (c *Codec) Unpack(dst, packed []byte) ([]byte, error) { return c.dec().DecodeAll(packed, dst) }
