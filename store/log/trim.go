package log

import "fmt"

// Trim recycles the segments whose records all lie below before; the newest segment stays. Records below before may therefore still be
// held. Durable order: the hook of SetBeforeRecycle (it syncs what it adds), then segment by segment from the oldest: its first
// sector says "free", synced, before the next one is touched. A crash between leaves a shorter trim, and so does a disk that is full or read-only, which is an error.
// Repeating it is harmless.
func (l *Log) Trim(before uint64) error {
	l.trimming.Lock()
	defer l.trimming.Unlock()
	n, cut, hook, err := l.trimmable(before)
	if err != nil || n == 0 {
		return err
	}
	if hook != nil {
		if err := hook(cut); err != nil {
			return fmt.Errorf("prepare trim below %d: %w", cut, err)
		}
	}
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	gone := l.segments[:n:n]
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.first = cut
	synced := l.durable
	l.stats.SegmentsRecycled += uint64(n)
	l.mu.Unlock()
	for i, s := range gone {
		err := s.mark(flagFree, s.epoch, cut, synced)
		if passes(err) { // nothing was written of it
			l.takeBack(gone[i:])
			return err
		}
		if err == nil {
			err = s.sync()
		}
		if err != nil {
			l.forget(gone[i:])
			l.end(fmt.Errorf("%w: %w", ErrFailed, err))
			return err
		}
		l.mu.Lock()
		l.free = append(l.free, s)
		l.mu.Unlock()
	}
	l.removeExcess()
	l.judgeFull()
	l.wake()
	return nil
}

// trimmable tells how many segments may go and the first position that stays.
func (l *Log) trimmable(before uint64) (n int, cut uint64, hook func(uint64) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, 0, nil, l.err
	}
	for n+1 < len(l.segments) && l.segments[n].last() < before && l.segments[n+1].first <= l.durable {
		n++
	}
	if n == 0 {
		return 0, 0, nil, nil
	}
	return n, l.segments[n].first, l.hook, nil
}

// takeBack puts segments that could not be marked free back in front of those in use: they are trimmed another time.
func (l *Log) takeBack(list []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(list, l.segments...)
	l.first = list[0].first
	l.stats.SegmentsRecycled -= uint64(len(list))
}

// forget keeps segments that could not be recycled among the files to close.
func (l *Log) forget(list []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, list...)
}

// spareSizes is how many times the size wanted now a spare file may have: the sizes of a log go up and down with what it holds, and a file
// made anew is written twice.
const spareSizes = 4

// removeExcess removes recycled files beyond SpareSegments, and those that are too small to be used again or of an unusual size.
func (l *Log) removeExcess() {
	var excess []*segment
	l.mu.Lock()
	keep := l.free[:0:0]
	wanted := l.o.segmentSize(sizeOf(l.segments))
	largest := min(l.o.SegmentBytes, spareSizes*wanted)
	for _, s := range l.free {
		if len(keep) < l.o.SpareSegments && wanted <= s.size && s.size <= largest {
			keep = append(keep, s)
		} else {
			excess = append(excess, s)
		}
	}
	l.free = keep
	l.mu.Unlock()
	l.files.Lock() // a lagging reader may still be reading it
	defer l.files.Unlock()
	for _, s := range excess {
		err := s.file.Close()
		if err == nil {
			err = l.o.FS.Remove(s.name)
		}
		if err != nil {
			// Harmless: the file says that it is free, and the next Open finds it.
			l.o.Logger.Warn("remove recycled segment failed", "segment", s.name, "error", err)
		}
	}
}
