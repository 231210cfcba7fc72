package window

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/portmath"
)

// distinct keeps the values it has seen as keys of the table "seen", in pipeline.AppendKey's form: equal numbers are one value
// whatever their kind. A long text stands there as its SHA-256. When there are more than distinctMax, they become the registers
// of a HyperLogLog (Flajolet et al. 2007, estimated as in Qin, Kim, Tung 2016) of xxhash64, in the binary form of
// axiomhq/hyperloglog, version 2, dense, which the table "sketch" holds from then on. Registers are changed in place by the rule of
// that form. The estimate is the library's formula in the arithmetic of package portmath: the library rounds as the processor does.
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
	registerMax   = 64 - precision + 1
	valueMax      = 64 // bytes of a value that stands as it is
)

// registersBegin is the head of the registers: version 2, precision, two times 0 (no bias, dense), their number big endian.
var registersBegin = []byte{2, precision, 0, 0, 0, 0, 1 << (precision - 8), 0}

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
		copy(b, registersBegin)
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
	if len(b) != registersHead+1<<precision || !bytes.Equal(b[:registersHead], registersBegin) {
		return fmt.Errorf("%w: registers of %d bytes", ErrState, len(b))
	}
	if rho := slices.Max(b[registersHead:]); rho > registerMax {
		return fmt.Errorf("%w: a register of %d, %d at most", ErrState, rho, registerMax)
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
	return pipeline.UintValue(estimate(b[registersHead:]))
}

// estimate is that of Qin, Kim, Tung 2016 with the library's coefficients for 4096 registers.
func estimate(registers []byte) uint64 {
	const m = float64(1 << precision)
	sum, empty := 0.0, 0.0
	for _, rho := range registers {
		if rho == 0 {
			empty++
		}
		sum += math.Float64frombits(uint64(1023-int(rho)) << 52) // 2**-rho
	}
	z := portmath.Log(empty + 1)
	beta := float64(-0.384979202588598*empty) + portmath.Polynomial(z, 0, 0.183162233114364, 0.130396688841854, 0.0704838927629266,
		-0.0089589397146453, 0.0113010036741605, -0.00194285569591290, 0.000225435774024964)
	return uint64(float64(alpha*m*(m-empty))/(sum+beta) + 0.5)
}

// alpha corrects the bias of 4096 registers.
const alpha = 0.7213 / (1 + 1.079/(1<<precision))
