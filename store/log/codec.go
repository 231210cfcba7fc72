package log

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codecWindow is zstd's window: frames are small, and each encoder's memory grows with it.
const codecWindow = 128 << 10

// Codec packs and unpacks frame bodies with zstd. One may serve any number of logs, from several goroutines at once: its memory, some
// 300 KiB for each of up to two at work in either direction, then counts once, not per log. It is taken at use, and let go again by the garbage
// collector when it was not used between two collections: an agent to which nothing comes holds none of it. Nothing has to be closed.
type Codec struct {
	packers   lender[*zstd.Encoder]
	unpackers lender[*zstd.Decoder]
}

// NewCodec makes a codec.
func NewCodec() *Codec {
	atOnce := min(2, runtime.GOMAXPROCS(0))
	return &Codec{packers: newLender(atOnce, newPacker), unpackers: newLender(atOnce, newUnpacker)}
}

func newPacker() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(codecWindow),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: zstd encoder options: " + err.Error())
	}
	return enc
}

func newUnpacker() *zstd.Decoder {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(bodyBytesMax))
	if err != nil {
		panic("BUG: zstd decoder options: " + err.Error())
	}
	return dec
}

// Pack appends the packed form of raw, which may be longer than raw.
func (c *Codec) Pack(dst, raw []byte) []byte {
	enc := c.packers.take()
	defer c.packers.giveBack(enc)
	return enc.EncodeAll(raw, dst)
}

// Unpack appends what was packed, at most 64 MiB and some. Frames carry no checksum of their own: the caller's covers them.
func (c *Codec) Unpack(dst, packed []byte) ([]byte, error) {
	dec := c.unpackers.take()
	defer c.unpackers.giveBack(dec)
	return dec.DecodeAll(packed, dst)
}

// lender lends things that take much memory, so many at once at the most; who comes later waits. Those that are given back stay until the collector takes them.
type lender[T any] struct {
	turns chan struct{} // one for each that is lent
	spare *sync.Pool
}

func newLender[T any](atOnce int, make1 func() T) lender[T] {
	return lender[T]{turns: make(chan struct{}, atOnce), spare: &sync.Pool{New: func() any { return make1() }}}
}

func (l *lender[T]) take() T {
	l.turns <- struct{}{}
	return l.spare.Get().(T)
}

func (l *lender[T]) giveBack(v T) {
	l.spare.Put(v)
	<-l.turns
}
