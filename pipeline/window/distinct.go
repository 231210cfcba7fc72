package window

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// distinct keeps the values it has seen as keys of the table "seen", in pipeline.AppendKey's form: equal numbers are one value
// whatever their kind. A long text stands there as its SHA-256. When there are more than distinctMax, they become the registers
// of a HyperLogLog (Flajolet et al. 2007, estimated as in Qin, Kim, Tung 2016) of xxhash64, in the binary form of
// axiomhq/hyperloglog, version 2, dense, which the table "sketch" holds from then on. Registers are changed in place by the rule of
// that form; the library estimates.
//
// The result depends on the values alone, not on the order in which they are added or merged.
//
//	0  values seen, uint32
//	4  1: there are registers
const (
	distinctBytes = 5
	distinctMax   = 1024

	precision     = 12 // 4096 registers: a standard error of 1.04 / sqrt(4096) = 1.6 %
	registersHead = 8
	valueMax      = 64 // bytes of a value that stands as it is
)

func (s *accumulators) see(i int, c cell, acc []byte, v pipeline.Value) {
	s.text = append(s.text[:0], byte(i))
	s.text, _ = pipeline.AppendKey(s.text, v) // fails for an Error only
	if len(s.text) > valueMax {
		h := sha256.Sum256(s.text[1:])
		s.text = append(append(s.text[:1], hashedValue), h[:]...)
	}
	if acc[4] != 0 {
		s.register(i, c, hashOfSeen(s.text[1:]))
		return
	}
	s.seeKey(i, c, acc)
}

// hashedValue begins a value that stands as its hash: no tag of pipeline.AppendKey.
const hashedValue = 0xFF

// seeKey counts the value in s.text, which begins with the aggregate.
func (s *accumulators) seeKey(i int, c cell, acc []byte) {
	if _, ok := c.side.seen.GetSub(c.key, s.text); ok {
		return
	}
	n := binary.LittleEndian.Uint32(acc)
	if n < distinctMax {
		mustPut(c.side.seen.PutSub(c.key, s.text, nil))
		binary.LittleEndian.PutUint32(acc, n+1)
		return
	}
	h := hashOfSeen(s.text[1:])
	s.toRegisters(i, c, acc)
	s.register(i, c, h)
}

// hashOfSeen is what a value weighs in registers.
func hashOfSeen(value []byte) uint64 { return xxhash.Sum64(value) }

// toRegisters turns what was seen into registers.
func (s *accumulators) toRegisters(i int, c cell, acc []byte) {
	b := s.registers(i, c)
	acc[4] = 1
	binary.LittleEndian.PutUint32(acc, 0)
	var subs [][]byte
	s.eachSeen(i, c, func(sub []byte) {
		setRegister(b, hashOfSeen(sub[1:]))
		subs = append(subs, append([]byte(nil), sub...))
	})
	for _, sub := range subs {
		c.side.seen.DeleteSub(c.key, sub)
	}
}

func (s *accumulators) eachSeen(i int, c cell, f func(sub []byte)) {
	c.side.seen.RangeSubUnordered(c.key, func(sub, _ []byte) bool {
		if int(sub[0]) == i {
			f(sub)
		}
		return true
	})
}

// registers gives the writable registers of a cell, making them when there are none.
func (s *accumulators) registers(i int, c cell) []byte {
	b, created, err := c.side.sketches.UpsertSub(c.key, s.subkey(i), registersHead+1<<precision)
	mustPut(err)
	if created {
		b[0], b[1] = 2, precision // version, dense
		binary.BigEndian.PutUint32(b[4:], 1<<precision)
	}
	return b
}

func (s *accumulators) register(i int, c cell, hash uint64) {
	at, rho := placeOf(hash)
	if have, ok := c.side.sketches.GetSub(c.key, s.subkey(i)); ok && have[registersHead+at] >= rho {
		return // most change nothing, and a register that is not written is in no checkpoint
	}
	setRegister(s.registers(i, c), hash)
}

func setRegister(b []byte, hash uint64) {
	at, rho := placeOf(hash)
	b[registersHead+at] = max(b[registersHead+at], rho)
}

// placeOf is the register of a hash and what it says there.
func placeOf(hash uint64) (at int, rho uint8) {
	return int(hash >> (64 - precision)), uint8(bits.LeadingZeros64(hash<<precision|1<<(precision-1))) + 1
}

// checkRegisters tells whether registers can be read.
func checkRegisters(b []byte) error {
	if len(b) != registersHead+1<<precision || b[0] != 2 || b[1] != precision {
		return fmt.Errorf("%w: registers of %d bytes", ErrState, len(b))
	}
	if err := new(hyperloglog.Sketch).UnmarshalBinary(b); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

func (s *accumulators) mergeSeen(i int, dst, src cell) {
	to, from := dst.entry[s.aggs[i].at:], src.entry[s.aggs[i].at:]
	if from[4] != 0 && !s.fault.unseen {
		if to[4] == 0 {
			s.toRegisters(i, dst, to)
		}
		have, _ := src.side.sketches.GetSub(src.key, s.subkey(i))
		s.text = append(s.text[:0], have...)
		b := s.registers(i, dst)
		for at := registersHead; at < len(b); at++ {
			b[at] = max(b[at], s.text[at])
		}
		return
	}
	if src.side != dst.side {
		s.eachSeen(i, src, func(sub []byte) { s.seeAgain(i, dst, to, sub) })
		return
	}
	var subs [][]byte // they lie in the table that is written
	s.eachSeen(i, src, func(sub []byte) { subs = append(subs, append([]byte(nil), sub...)) })
	for _, sub := range subs {
		s.seeAgain(i, dst, to, sub)
	}
}

// seeAgain counts what another cell has seen.
func (s *accumulators) seeAgain(i int, c cell, acc, sub []byte) {
	if acc[4] != 0 {
		s.register(i, c, hashOfSeen(sub[1:]))
		return
	}
	s.text = append(s.text[:0], sub...)
	s.seeKey(i, c, acc)
}

// distinct counts exactly while all values are there, else it estimates.
func (s *accumulators) distinct(i int, c cell, acc []byte) pipeline.Value {
	if acc[4] == 0 {
		return pipeline.IntValue(int64(binary.LittleEndian.Uint32(acc)))
	}
	b, _ := c.side.sketches.GetSub(c.key, s.subkey(i))
	var sketch hyperloglog.Sketch
	if err := sketch.UnmarshalBinary(b); err != nil {
		panic("BUG: registers that were checked cannot be read: " + err.Error())
	}
	return pipeline.UintValue(sketch.Estimate())
}
