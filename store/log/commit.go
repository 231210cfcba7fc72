package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/weirstream/weir/pipeline"
)

// run is the committer. It ends at Close or at a failure.
func (l *Log) run() {
	defer close(l.done)
	defer l.working.Store(false)
	defer l.due.Stop()
	retry := time.NewTimer(spaceRetry)
	defer retry.Stop()
	for {
		l.working.Store(true)
		l.beat.Add(1)
		do := l.decide(time.Now())
		switch {
		case do.stop:
			l.end(ErrClosed)
			return
		case do.commit:
			if err := l.commit(retry); err != nil {
				l.end(err)
				return
			}
			continue
		case do.retry:
			retry.Reset(spaceRetry)
		}
		l.working.Store(false)
		select {
		case <-l.kick:
		case <-l.due.C:
		case <-retry.C:
			l.working.Store(true)
			l.pollFull()
		}
	}
}

// step is what the committer does next; nothing: it waits.
type step struct{ commit, stop, retry bool }

// decide tells what the committer does now: commit when the first record has waited Linger, somebody waits in Sync, a frame is
// full, or the log closes. A commit that ran longer than Linger is followed by the next without a pause. Until then Append's timer, due, is armed: the first record of a block wakes nobody.
func (l *Log) decide(now time.Time) step {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return step{stop: true}
	case l.skip >= l.next:
		return step{commit: true}
	case l.open.count == 0:
		return step{stop: l.closing, retry: l.full}
	case l.closing || l.urgent || len(l.open.raw) >= frameRawBytes:
		return step{commit: true}
	}
	wait := l.wait() - now.Sub(l.open.started)
	if wait <= 0 {
		return step{commit: true}
	}
	l.due.Reset(wait)
	return step{}
}

// commit writes the open block, makes it durable and tells. An error is final.
func (l *Log) commit(timer *time.Timer) error {
	l.mu.Lock()
	b, first, synced := l.open, l.durable+1, l.durable
	l.open, l.spare = l.spare, block{}
	l.urgent, l.inflight = false, len(b.raw)
	skipped := l.takeJump()
	l.mu.Unlock()

	if b.count > 0 {
		b.cuts = append(b.cuts, cut{end: len(b.raw), count: b.count})
	}
	var stamp pipeline.Stamp
	if l.o.Stamp != nil {
		stamp = l.o.Stamp()
	}
	blocks := make([]*Block, 0, len(b.cuts))
	start, counted := 0, uint64(0)
	kept := b.keep()
	for _, c := range b.cuts {
		raw := kept[start:c.end:c.end]
		h := header{first: first + counted, last: first + c.count - 1, syncedThrough: synced, stamp: stamp, rawBytes: uint32(len(raw))}
		if err := l.writeFrame(&h, raw, timer); err != nil {
			return err
		}
		blocks = append(blocks, &Block{First: h.first, Last: h.last, Stamp: stamp, raw: raw})
		start, counted = c.end, c.count
	}
	if skipped.last > 0 {
		lost, err := l.writeJump(skipped, header{syncedThrough: synced, stamp: stamp}, timer)
		if err != nil {
			return err
		}
		blocks = append(blocks, lost)
	}
	size := len(kept)
	b.reset()
	if l.bugs.ackEarly {
		l.publish(blocks, size, b)
	}
	l.showAhead(blocks)
	if l.bugs.hang != nil {
		l.bugs.hang()
	}
	if !l.careless(l.last) {
		err := l.last.sync()
		if err != nil && l.bugs.syncAgain {
			err = l.last.sync()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	if !l.bugs.ackEarly {
		l.publish(blocks, size, b)
	}
	return nil
}

// careless tells of planted faults: what is written to a segment is not synced.
func (l *Log) careless(s *segment) bool { return l.bugs.noSync || l.bugs.reuseUnsynced && s.reused }

// writeFrame packs, places and writes a frame, in a new segment when it does not fit the last one.
func (l *Log) writeFrame(h *header, raw []byte, timer *time.Timer) error {
	body := raw
	if flag := l.pack(raw); flag != 0 {
		body, h.flags = l.packed, h.flags|flag
	}
	h.bodyBytes = uint32(len(body))
	size := headerBytes + len(body)
	off := int64(0)
	if l.last != nil {
		off = place(l.last.end, size)
	}
	if l.last == nil || off+int64(size) > l.last.size {
		if err := l.rotate(h.first, h.syncedThrough, int64(size), timer); err != nil {
			return err
		}
		off = place(l.last.end, size)
	}
	seg := l.last
	h.epoch = seg.epoch
	if l.bugs.noEpoch {
		h.epoch = 0
	}
	l.frame = append(append(l.frame[:0], make([]byte, headerBytes)...), body...)
	h.seal(l.frame)
	seg.dirty = true
	if err := l.patiently(timer, func() error {
		_, err := seg.file.WriteAt(l.frame, off)
		if l.bugs.fullIsDone && passes(err) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("%w: write %s at %d: %w", ErrFailed, seg.name, off, err)
	}
	if cap(l.frame) > min(max(4*len(l.frame), idleBytes), 4*frameRawBytes) {
		l.frame, l.packed = nil, nil
	}
	ref := frameRef{off: off, first: h.first, last: h.last, size: size}
	if h.flags&flagLost != 0 {
		ref.size = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.frames = append(seg.frames, ref)
	seg.end = off + int64(size)
	l.stats.Frames++
	l.stats.BytesWritten += uint64(size)
	l.stats.PagesWritten += uint64(pages(off, size))
	return nil
}

// pack compresses a body into l.packed and gives the flag of how, 0 when it does not get smaller. A body of FastBytes means load: S2
// takes a fifth of zstd's time, and a large frame saves pages enough by being large.
func (l *Log) pack(raw []byte) (flag byte) {
	switch {
	case !l.o.Compress || len(raw) == 0:
		return 0
	case l.o.FastBytes > 0 && len(raw) >= l.o.FastBytes:
		l.packed, flag = s2.Encode(l.packed[:cap(l.packed)], raw), flagS2
	default:
		l.packed, flag = l.o.Codec.Pack(l.packed[:0], raw), flagZstd
	}
	if len(l.packed) >= len(raw) {
		return 0
	}
	return flag
}

// epochStep makes epochs hard to guess: a payload cannot carry a frame that recovery would take for one of the log's.
const epochStep = 1 << 32

// rotate takes another segment into use. The old one is synced before the first write to the new one: a segment that
// has a successor is whole, so that what is missing in it is damage.
func (l *Log) rotate(first, synced uint64, need int64, timer *time.Timer) error {
	if old := l.last; old != nil && old.dirty && !l.bugs.oldNotSynced && !l.careless(old) {
		if err := old.sync(); err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	size := max(l.segmentSize(), align(need+2*headerBytes, pageBytes))
	seg := l.takeFree(size)
	reused := seg != nil
	if !reused {
		if err := l.patiently(timer, func() (err error) {
			if err := l.roomFor(size); err != nil {
				return err
			}
			l.number++
			seg, err = createSegment(l.o.FS, l.o.Dir, l.number, size, !l.bugs.noDirSync)
			return err
		}); err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		l.mu.Lock()
		l.stats.SegmentsMade++
		l.mu.Unlock()
	}
	l.epoch += 1 + rand.Uint64N(epochStep)
	seg.epoch, seg.first, seg.frames, seg.end, seg.dirty, seg.reused = l.epoch, first, nil, headerBytes, true, reused
	if err := l.patiently(timer, func() error { return seg.mark(flagStart, seg.epoch, first, synced) }); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	l.mu.Lock()
	l.segments = append(l.segments, seg)
	l.mu.Unlock()
	l.last = seg
	l.judgeFull()
	return nil
}

// segmentSize is how large the next segment is to be: at least half of all in use. So a log that is
// trimmed to little gets small again, and one that has to hold much has few files.
func (l *Log) segmentSize() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.segmentSize(sizeOf(l.segments))
}

// segmentSize: pure. live are the bytes of the segments in use.
func (c *Config) segmentSize(live int64) int64 {
	if c.SegmentBytesMin == 0 {
		return c.SegmentBytes
	}
	size := min(c.SegmentBytesMin, c.SegmentBytes)
	for 2*size < live && size < c.SegmentBytes {
		size *= 2
	}
	return min(size, c.SegmentBytes)
}

// takeFree gives a recycled segment of at least size bytes, nil when there is none.
func (l *Log) takeFree(size int64) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.free {
		if s.size >= size {
			l.free = append(l.free[:i:i], l.free[i+1:]...)
			return s
		}
	}
	return nil
}

// showAhead gives written blocks to the readers that do not wait for the sync, if there are any.
func (l *Log) showAhead(blocks []*Block) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.eager == 0 || l.bugs.ackEarly {
		return
	}
	l.ahead = blocks
	close(l.moved)
	l.moved = make(chan struct{})
}

// publish makes committed blocks visible and wakes everybody. spare is the emptied memory of the block.
func (l *Log) publish(blocks []*Block, bytes int, spare block) {
	last := blocks[len(blocks)-1]
	l.mu.Lock()
	for _, b := range blocks {
		if !b.Lost {
			l.stats.Records += b.Last - b.First + 1
		}
		l.tail = append(l.tail, b)
		l.tailBytes += len(b.raw)
	}
	drop := 0
	for l.tailBytes > l.o.TailBytes && drop < len(l.tail) {
		l.tailBytes -= len(l.tail[drop].raw)
		drop++
	}
	if drop > 0 {
		n := copy(l.tail, l.tail[drop:])
		clear(l.tail[n:])
		l.tail = l.tail[:n]
	}
	l.stats.Syncs++
	l.stats.BytesAppended += uint64(bytes)
	l.durable, l.stamp, l.ahead = last.Last, last.Stamp, nil
	l.inflight, l.spare = 0, spare
	moved := l.moved
	l.moved = make(chan struct{})
	watchers := l.watchers
	l.room.Broadcast()
	l.mu.Unlock()
	close(moved)
	for _, w := range watchers {
		if w.durable != nil {
			w.durable(last.Last, nil)
		}
	}
}

// end latches the log: nothing is taken or acknowledged any more.
func (l *Log) end(err error) {
	failed := !errors.Is(err, ErrClosed)
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	moved := l.moved
	l.moved = make(chan struct{})
	watchers := l.watchers
	l.room.Broadcast()
	l.mu.Unlock()
	close(moved)
	if !failed {
		return
	}
	l.o.Logger.Error("log failed: nothing is acknowledged until it is opened again", "dir", l.o.Dir, "error", err)
	for _, w := range watchers {
		if w.durable != nil {
			w.durable(0, err)
		}
	}
}
