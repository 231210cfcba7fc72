package ops

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// made keeps the tables that an operator opens.
type made map[string]*state.Table

func (m made) Table(spec state.Spec) (*state.Table, error) {
	m[spec.Name] = state.New(spec)
	return m[spec.Name], nil
}

func openBlocks(t *rapid.T, n, size int) (*ZScore, made) {
	z := NewZScore(ZScoreConfig{N: n})
	z.blocks = newSampleBlocks(n, size)
	tables := made{}
	if err := z.Open(tables); err != nil {
		t.Fatal(err)
	}
	return z, tables
}

// blocksDiff draws samples of a few keys and keeps them as rings and as blocks, from the beginning and from a ring of an earlier build on: "" when they hold the
// same throughout. spoil may change a ring before it is read.
func blocksDiff(t *rapid.T, spoil func(ring []byte)) string {
	n, size := rapid.IntRange(2, 12).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "size")
	moved := rapid.IntRange(0, 40).Draw(t, "moved")
	fresh, _ := openBlocks(t, n, size)
	later, _ := openBlocks(t, n, size)
	rings := map[string][]byte{}
	push := func(z *ZScore, key string, f float64) {
		head, _, err := z.table.Upsert([]byte(key), z.blocks.headBytes())
		if err != nil {
			t.Fatal(err)
		}
		z.blocks.push([]byte(key), head, f)
	}
	for i := range 60 {
		if i == moved {
			for key, ring := range rings {
				ring = slices.Clone(ring)
				spoil(ring)
				if err := later.Older(samplesTable, ringVersion)([]byte(key), nil, ring); err != nil {
					return err.Error()
				}
			}
		}
		key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
		f := rapid.Float64Range(-9, 9).Draw(t, "sample")
		if rings[key] == nil {
			rings[key] = make([]byte, ringHead+8*n)
		}
		ringPush(rings[key], n, f)
		want := ringSamples(nil, rings[key])
		push(fresh, key, f)
		checked := []*ZScore{fresh}
		if i >= moved {
			push(later, key, f)
			checked = append(checked, later)
		}
		for _, z := range checked {
			head, _ := z.table.Get([]byte(key))
			if got := z.blocks.samples(nil, []byte(key), head); !slices.Equal(got, want) {
				return "other samples"
			}
			if err := z.Restored(); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// TestBlocksHoldWhatARingHolds, also when they go on from one.
func TestBlocksHoldWhatARingHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if diff := blocksDiff(t, func([]byte) {}); diff != "" {
			t.Fatal(diff)
		}
	})
	found := rapid.Custom(func(t *rapid.T) string {
		return blocksDiff(t, func(ring []byte) { ring[ringHead+1] ^= 1 })
	})
	for seed := range 100 {
		if found.Example(seed) != "" {
			return
		}
	}
	t.Error("a ring that is read wrong is not found")
}

// TestBlocksThatAreNotReadableAreRefused: a block that is missing or cut, a sample that is none, a head of another size.
func TestBlocksThatAreNotReadableAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(z *ZScore, tables made){
		"missing": func(_ *ZScore, m made) { m[blocksTable].DeleteSub([]byte("k"), []byte{0, 1}) },
		"cut":     func(_ *ZScore, m made) { _ = m[blocksTable].PutSub([]byte("k"), []byte{0, 1}, make([]byte, 8)) },
		"NaN": func(z *ZScore, m made) {
			b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
			_ = m[blocksTable].PutSub([]byte("k"), []byte{0, 1}, append(b, make([]byte, 8*(blockSamples-1))...))
		},
		"head": func(_ *ZScore, m made) { _ = m[samplesTable].Put([]byte("k"), make([]byte, 9)) },
		"none": func(z *ZScore, m made) { _ = m[samplesTable].Put([]byte("k"), make([]byte, z.blocks.headBytes())) },
	} {
		z, tables := NewZScore(ZScoreConfig{N: 100}), made{}
		if err := z.Open(tables); err != nil {
			t.Fatal(err)
		}
		head, _, err := z.table.Upsert([]byte("k"), z.blocks.headBytes())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 110 {
			z.blocks.push([]byte("k"), head, float64(i))
		}
		if err := z.Restored(); err != nil {
			t.Fatal(err)
		}
		spoil(z, tables)
		if err := z.Restored(); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestARowWritesOneBlock: what a key that changed gives to a checkpoint does not grow with n.
func TestARowWritesOneBlock(t *testing.T) {
	written := func(n int) (bytes int) {
		z, tables := NewZScore(ZScoreConfig{N: n}), made{}
		if err := z.Open(tables); err != nil {
			t.Fatal(err)
		}
		drain := func() (bytes int) {
			for _, table := range tables {
				f := table.Freeze()
				if err := f.Encode(func(_, _, val []byte, _ bool) error { bytes += len(val); return nil }); err != nil {
					t.Fatal(err)
				}
				f.Commit()
			}
			return bytes
		}
		out := pipeline.NewOut("", 1)
		for i := range n + 40 {
			if !z.sample(float64(i), &pipeline.Row{}, out) {
				t.Fatal("refused")
			}
		}
		drain()
		z.sample(1, &pipeline.Row{}, out)
		return drain()
	}
	if got := written(ringMax); got != ringHead+8*ringMax {
		t.Errorf("a ring of %d samples writes %d bytes", ringMax, got)
	}
	for _, n := range []int{ringMax + 1, 288, ZScoreMax} {
		if got := written(n); got > blockCount+2*8*blockSamples {
			t.Errorf("of %d samples a row writes %d bytes", n, got)
		}
	}
}
