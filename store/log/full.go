package log

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// space is what decides whether the log is full, in bytes.
type space struct {
	live, spare  int64 // segments in use, recycled ones
	max, segment int64
	disk         int64 // free on the disk beyond the reserve; may be negative
}

// verdict is pure: full begins when no further whole segment can be taken into use, and ends when 20 % of what the log may have is
// free again. What was accepted before, and AppendReserved, use the segment that was taken last.
func (s space) verdict(full bool) bool {
	more := min(s.max-s.live, s.spare+max(s.disk, 0))
	if more < s.segment {
		return true
	}
	return full && more < (s.live+more)/5
}

// judgeFull decides anew and tells the watchers of a change.
func (l *Log) judgeFull() {
	free, err := l.o.FS.Free(l.o.Dir)
	if err != nil {
		// Only the disk's limit is unknown then; ENOSPC still tells.
		l.o.Logger.Warn("ask free disk space failed", "dir", l.o.Dir, "error", err)
		free = 1 << 50
	}
	l.mu.Lock()
	s := space{live: sizeOf(l.segments), spare: sizeOf(l.free), max: l.o.MaxBytes, segment: l.o.SegmentBytes, disk: free - l.o.ReserveBytes}
	full := l.full
	l.mu.Unlock()
	l.setFull(s.verdict(full))
}

// passes tells whether a write that failed may succeed later though nothing here changes: the disk is full, or read-only.
func passes(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// roomFor looks before a segment file is filled: on a full disk each try would write what there is room for, and remove it again.
func (l *Log) roomFor(size int64) error {
	free, err := l.o.FS.Free(l.o.Dir)
	if err != nil || free >= size { // not known: the writes tell
		return nil
	}
	return fmt.Errorf("make segment of %d bytes in %s, %d are free: %w", size, l.o.Dir, free, syscall.ENOSPC)
}

// complaintEvery keeps a disk that stays full from filling the operator's log.
const complaintEvery = 10 * time.Minute

// complain tells why a write waits: at once, then now and then.
func (l *Log) complain(err error) {
	if now := time.Now(); l.complained.IsZero() || now.Sub(l.complained) >= complaintEvery {
		l.complained = now
		l.o.Logger.Error("write waits: the disk is full or read-only; nothing is lost, it is tried each second", "dir", l.o.Dir, "error", err)
	}
}

// setWaits notes why a write waits; nil: none does.
func (l *Log) setWaits(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Waits = ""
	if err != nil {
		l.stats.Waits = err.Error()
	}
}

// pollFull asks again whether a full disk has space: others may have freed it.
func (l *Log) pollFull() {
	l.mu.Lock()
	full := l.full
	l.mu.Unlock()
	if full {
		l.judgeFull()
	}
}

func (l *Log) setFull(full bool) {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.mu.Lock()
	changed := l.full != full
	l.full = full
	watchers := l.watchers
	l.room.Broadcast()
	l.mu.Unlock()
	if !changed {
		return
	}
	if full {
		l.o.Logger.Warn("log is full", "dir", l.o.Dir)
	} else {
		l.o.Logger.Info("log has space again", "dir", l.o.Dir)
	}
	for _, w := range watchers {
		if w.full != nil {
			w.full(full)
		}
	}
}

// SetMaxBytes changes Config.MaxBytes, in bytes of segments in use; below four segments it is four segments. What is held stays, however much it is.
func (l *Log) SetMaxBytes(n int64) {
	n = max(n, 4*l.o.SegmentBytes)
	l.mu.Lock()
	same := l.o.MaxBytes == n
	l.o.MaxBytes = n
	l.mu.Unlock()
	if !same {
		l.judgeFull()
	}
}

// spaceRetry is how often a full disk is asked again.
const spaceRetry = time.Second

// patiently does f again as long as the disk has no space for it, or is read-only; meanwhile the log is full. Nothing of it was acknowledged. f is a write, never a sync:
// what a sync that failed has written is not known.
func (l *Log) patiently(timer *time.Timer, f func() error) error {
	closing := false
	for waited := false; ; waited = true {
		err := f()
		if !passes(err) {
			if waited {
				l.setWaits(nil)
			}
			return err
		}
		l.complain(err)
		l.setWaits(err)
		l.setFull(true)
		l.beat.Add(1)
		if l.o.Waiting != nil {
			l.o.Waiting()
		}
		if timer == nil || closing {
			return err
		}
		closing = !l.pause(timer) // then a last try: there may be room by now
	}
}

// pause waits until the disk is to be asked again; false: the log closes.
func (l *Log) pause(timer *time.Timer) bool {
	timer.Reset(spaceRetry)
	if l.bugs.noPause {
		timer.Reset(spaceRetry / 1000)
	}
	for {
		l.mu.Lock()
		closing := l.closing
		l.mu.Unlock()
		if closing {
			return false
		}
		select {
		case <-l.kick: // somebody waits for a commit: that makes no room
		case <-timer.C:
			return true
		}
	}
}
