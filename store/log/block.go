package log

import (
	"bytes"
	"time"
)

// block is a run of records that becomes frames.
type block struct {
	raw     []byte
	cuts    []cut // where all frames but the last end
	count   uint64
	started time.Time // arrival of the first record
	used    int       // bytes of the last commit
}

type cut struct {
	end   int
	count uint64 // records up to here
}

// begin is to be called before records are added; it returns how many bytes there are.
func (b *block) begin() int {
	if len(b.raw) == 0 {
		b.started = time.Now()
	}
	return len(b.raw)
}

// room cuts a frame when the next record, of size bytes, would not fit it; frames are cut at frameRaw bytes.
func (b *block) room(size, frameRaw int) {
	begin := 0
	if n := len(b.cuts); n > 0 {
		begin = b.cuts[n-1].end
	}
	if have := len(b.raw) - begin; have > 0 && have+size > frameRaw {
		b.cuts = append(b.cuts, cut{end: len(b.raw), count: b.count})
	}
}

// keep gives the records in memory that readers may hold on to, and b memory for the next ones. Where b's own is well filled it is
// given away, which saves copying it.
func (b *block) keep() []byte {
	b.used = len(b.raw)
	if len(b.raw) < cap(b.raw)/4*3 {
		return bytes.Clone(b.raw)
	}
	raw := b.raw
	b.raw = make([]byte, 0, cap(raw))
	return raw
}

// idleBytes of memory a block keeps though less came last.
const idleBytes = 32 << 10

func (b *block) reset() {
	if cap(b.raw) > min(max(4*b.used, idleBytes), 4*frameRawBytes) { // it was made for more than what comes now
		b.raw = nil
	}
	b.raw, b.cuts, b.count = b.raw[:0], b.cuts[:0], 0
}
