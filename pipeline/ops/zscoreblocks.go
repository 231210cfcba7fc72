package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

const (
	samplesTable, blocksTable = "samples", "blocks"

	// Versions of ops.zscore: a ring; a head and blocks.
	ringVersion, blocksVersion = 1, 2

	// blockSamples of a block: what a row writes at most, besides the head.
	blockSamples = 32

	// blockCount: how many samples the key has had (FORMAT.md).
	blockCount = 8
)

// sampleBlocks keeps the samples of a key in pieces, so that a row writes one piece to the next checkpoint and not all of them. The head
// has the number of samples that the key has had and those of the last piece that is not full; full pieces are entries of a table of their own and
// do not change until samples of the same number, modulo the ring of pieces, take their place.
type sampleBlocks struct {
	n, size int // samples that are wanted, samples of a block
	table   *state.Table
	sub     [2]byte
}

func newSampleBlocks(n, size int) *sampleBlocks { return &sampleBlocks{n: n, size: size} }

func (b *sampleBlocks) open(tables pipeline.Tables) (err error) {
	b.table, err = tables.Table(state.Spec{Name: blocksTable, Kind: state.Map, Type: "ops.zscore.blocks", Version: 1})
	return err
}

func (b *sampleBlocks) headBytes() int { return blockCount + 8*b.size }

// number gives the subkey of the i-th block of a key.
func (b *sampleBlocks) number(i uint64) []byte {
	ring := uint64((b.n + b.size - 1) / b.size)
	binary.BigEndian.PutUint16(b.sub[:], uint16(i%ring))
	return b.sub[:]
}

// span gives the numbers of the first sample that is held and of the next one.
func (b *sampleBlocks) span(head []byte) (first, next uint64) {
	next = binary.LittleEndian.Uint64(head)
	return next - min(next, uint64(b.n)), next
}

// samples appends the samples of a key, the oldest first.
func (b *sampleBlocks) samples(dst []float64, key, head []byte) []float64 {
	first, next := b.span(head)
	size := uint64(b.size)
	for i := first / size; i < next/size; i++ {
		block, ok := b.table.GetSub(key, b.number(i))
		if !ok || len(block) != 8*b.size {
			panic("BUG: a block of samples is missing that Restored has seen")
		}
		dst = appendFloats(dst, block[8*(max(first, i*size)-i*size):])
	}
	from := max(first, next/size*size) % size
	return appendFloats(dst, head[blockCount+8*from:blockCount+8*(next%size)])
}

// push takes in a sample.
func (b *sampleBlocks) push(key, head []byte, f float64) {
	next := binary.LittleEndian.Uint64(head)
	at := next % uint64(b.size)
	binary.LittleEndian.PutUint64(head[blockCount+8*at:], math.Float64bits(f))
	binary.LittleEndian.PutUint64(head, next+1)
	if at+1 < uint64(b.size) {
		return
	}
	if err := b.table.PutSub(key, b.number(next/uint64(b.size)), head[blockCount:]); err != nil {
		panic("BUG: blocks of samples have no limit: " + err.Error())
	}
	clear(head[blockCount:]) // zeros cost nothing on flash
}

// check refuses heads whose samples are not all there, or not finite.
func (b *sampleBlocks) check(heads *state.Table) (err error) {
	heads.Range(func(key, _, head []byte) bool {
		err = b.checkKey(key, head)
		return err == nil
	})
	return err
}

func (b *sampleBlocks) checkKey(key, head []byte) error {
	if len(head) != b.headBytes() {
		return fmt.Errorf("%w: table %s has an entry of %d bytes, want %d", ErrState, samplesTable, len(head), b.headBytes())
	}
	first, next := b.span(head)
	size := uint64(b.size)
	if next == 0 || next > math.MaxUint64/2 {
		return fmt.Errorf("%w: %d samples", ErrState, next)
	}
	for i := first / size; i < next/size; i++ {
		block, ok := b.table.GetSub(key, b.number(i))
		if !ok || len(block) != 8*b.size {
			return fmt.Errorf("%w: samples %d to %d are missing", ErrState, i*size, (i+1)*size-1)
		}
		if err := checkFinite(block); err != nil {
			return err
		}
	}
	return checkFinite(head[blockCount:])
}

func checkFinite(b []byte) error {
	for ; len(b) >= 8; b = b[8:] {
		if f := math.Float64frombits(binary.LittleEndian.Uint64(b)); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: a sample is not finite", ErrState)
		}
	}
	return nil
}

// Older implements pipeline.Evolving: rings of version 1 become heads and blocks.
func (z *ZScore) Older(table string, version uint16) func(key, sub, val []byte) error {
	if z.blocks == nil || table != samplesTable || version != ringVersion {
		return nil
	}
	return func(key, _, ring []byte) error {
		if err := checkRing(ring, z.c.N); err != nil {
			return err
		}
		head := make([]byte, z.blocks.headBytes())
		for _, f := range ringSamples(nil, ring) {
			z.blocks.push(key, head, f)
		}
		return z.table.LoadChanged(key, nil, head)
	}
}
