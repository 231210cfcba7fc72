// Package log is the one durable log of weir: an ordered sequence of records in recycled segment files. Journal, outbox and snapshot
// deltas are thin layers on it.
//
// Append copies a record into the open block; the committer goroutine writes the block as frames and syncs them (group
// commit). When Sync returns, or Durable reaches a record's position, the record survives a power cut. Positions rise by
// one. FORMAT.md has the bytes, DESIGN.md the goroutines and the rules of commit, recovery, trim and full.
package log

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// Options says where a log lives.
type Options struct {
	FS  disk.FS // nil: disk.OS
	Dir string
	Config
	// Stamp gives the time of a frame; called by the committer. nil: zero stamps.
	Stamp func() pipeline.Stamp
	// After is a position known to have been given out (a checkpoint's): the log never gives out a position up to it again. Positions that
	// are jumped over read as lost.
	After uint64
	// Codec packs the frames; nil: one of the log's own. Many logs of one process share one to save memory.
	Codec  *Codec
	Logger *slog.Logger // nil: silent
	// Waiting is called with each try of a write that waits until the disk takes it. It must not block. Optional.
	Waiting func()
}

// Log is safe for use by several goroutines. The committer owns last, epoch, number, packed, frame and complained; mu guards what is below it.
type Log struct {
	o      Options
	bugs   faults
	last   *segment // being written
	epoch  uint64   // highest used
	number uint64   // highest file number used
	packed []byte
	frame  []byte

	complained time.Time // when a write was last said to wait

	trimming sync.Mutex   // one Trim at a time
	judging  sync.Mutex   // one verdict on full at a time, so that callbacks come in order
	files    sync.RWMutex // readers hold it while they read; Close takes it
	kick     chan struct{}
	due      *time.Timer   // when the open block has waited Linger
	done     chan struct{} // closed when the committer has ended
	beat     atomic.Uint64 // see Beat
	working  atomic.Bool

	mu       sync.Mutex
	room     sync.Cond // something committed, or the log ended or became full
	open     block     // being filled
	spare    block     // empty, to be the next open one
	inflight int       // bytes being committed
	next     uint64    // position of the next record
	skip     uint64    // positions up to it are to be left out (SkipTo)
	durable  uint64
	first    uint64
	err      error // why nothing is taken any more
	full     bool
	urgent   bool // somebody waits in Sync
	closing  bool

	stretch        time.Duration // how long a commit waits instead of Linger (Stretch)
	stretchRecords uint64        // and for how many records at most
	segments       []*segment    // in use, by epoch
	free           []*segment    // recycled
	tail           []*Block      // newest durable blocks, consecutive, up to durable
	tailBytes      int
	eager          int            // open readers that do not wait for the sync
	ahead          []*Block       // for them: written, not yet durable; consecutive, behind durable
	stamp          pipeline.Stamp // of the newest frame
	watchers       []*watcher
	moved          chan struct{} // closed when durable moves or the log ends
	hook           func(before uint64) error
	stats          Stats
	lostAt         map[uint64]lostRange // by first position
}

// lostRange is what is known of positions without records.
type lostRange struct {
	stamp   pipeline.Stamp // of the frame before
	leftOut bool           // on purpose
}

// watcher is one registration of OnDurable or OnFull.
type watcher struct {
	durable func(uint64, error)
	full    func(bool)
}

// Append copies the concatenation of parts as one record into the open block and returns its position. It does not wait
// for the disk, but blocks while MaxUnsynced bytes wait. ErrFull, ErrTooLarge: nothing was appended, the log goes on. ErrFailed,
// ErrClosed: it takes nothing any more.
func (l *Log) Append(parts ...[]byte) (uint64, error) { return l.append(parts, false) }

// AppendReserved is Append that a full log takes too: for the little that must be written before Trim can free something.
func (l *Log) AppendReserved(parts ...[]byte) (uint64, error) { return l.append(parts, true) }

func (l *Log) append(parts [][]byte, reserved bool) (uint64, error) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > RecordBytesMax {
		return 0, ErrTooLarge
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(size, reserved); err != nil {
		return 0, err
	}
	before := l.open.begin()
	l.open.room(size, l.bugs.frameRaw)
	l.open.raw = appendRecord(l.open.raw, size, parts)
	l.open.count++
	l.appended(before, 1)
	l.next++
	return l.next - 1, nil
}

// AppendAll appends n records under one lock: record i has size(i) bytes, which put adds to a buffer. It returns the position of the
// first; the others follow. It may take fewer than n, though at least one when it returns no error: it waits for room only
// before the first. Errors are those of Append; records before a wrong one are appended.
func (l *Log) AppendAll(n int, size func(i int) int, put func(dst []byte, i int) []byte) (first uint64, done int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.next
	before := 0
	for done < n {
		bytes := size(done)
		if bytes > RecordBytesMax {
			err = ErrTooLarge
			break
		}
		if done == 0 {
			if err = l.admit(bytes, false); err != nil {
				return 0, 0, err
			}
			first = l.next // others may have come while it waited
			before = l.open.begin()
		} else if l.unsynced()+bytes > l.o.MaxUnsynced {
			break
		}
		l.open.room(bytes, l.bugs.frameRaw)
		l.open.raw = put(binary.AppendUvarint(l.open.raw, uint64(bytes)), done)
		l.open.count++
		done++
	}
	if done > 0 {
		l.appended(before, done)
		l.next += uint64(done)
	}
	return first, done, err
}

// admit waits until size bytes may be appended, and tells why they may not. The caller holds mu.
func (l *Log) admit(size int, reserved bool) error {
	for l.err == nil && !l.closing && (!l.full || reserved) && l.unsynced() > 0 && l.unsynced()+size > l.o.MaxUnsynced {
		l.room.Wait()
	}
	switch {
	case l.err != nil:
		return l.err
	case l.closing:
		return ErrClosed
	case l.full && !reserved:
		return ErrFull
	}
	return nil
}

// appended sees to it that the committer looks when the open block, which had so many bytes before records were added, is due.
func (l *Log) appended(before, records int) {
	switch {
	case before < frameRawBytes && len(l.open.raw) >= frameRawBytes, before == 0 && l.wait() <= 0:
		l.wake()
	case before == 0:
		l.due.Reset(l.wait())
	default:
		l.enough(l.open.count - uint64(records))
	}
}

func (l *Log) unsynced() int { return len(l.open.raw) + l.inflight }

// wake tells the committer that there is something to decide.
func (l *Log) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Sync waits until everything appended before the call is durable.
func (l *Log) Sync(ctx context.Context) error {
	l.mu.Lock()
	target := l.next - 1
	for l.durable < target {
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		l.urgent = true
		moved := l.moved
		l.mu.Unlock()
		l.wake()
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("sync log: %w", ctx.Err())
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return nil
}

// First is the lowest position still held, Last()+1 when there is none.
func (l *Log) First() uint64 { l.mu.Lock(); defer l.mu.Unlock(); return l.first }

// Last is the position of the last record appended.
func (l *Log) Last() uint64 { l.mu.Lock(); defer l.mu.Unlock(); return l.next - 1 }

// Durable is the position up to which records survive a power cut.
func (l *Log) Durable() uint64 { l.mu.Lock(); defer l.mu.Unlock(); return l.durable }

// LastStamp is the stamp of the newest frame, zero when there is none: the agent's clock goes on from it.
func (l *Log) LastStamp() pipeline.Stamp { l.mu.Lock(); defer l.mu.Unlock(); return l.stamp }

// OnDurable registers f: it is called by the committer after each sync with the new durable position, and once with the error when
// the log failed (at once if it already has). f must not block nor wait for the log. cancel ends it; a call may still be running then.
func (l *Log) OnDurable(f func(uint64, error)) (cancel func()) {
	cancel = l.watch(&watcher{durable: f})
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if errors.Is(err, ErrFailed) {
		f(0, err)
	}
	return cancel
}

// OnFull registers f: true when Append begins to give ErrFull, false when 20 % is free again. f must not block.
func (l *Log) OnFull(f func(bool)) (cancel func()) { return l.watch(&watcher{full: f}) }

// watch replaces the list instead of changing it: tell uses it without mu.
func (l *Log) watch(w *watcher) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers = append(l.watchers[:len(l.watchers):len(l.watchers)], w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		var rest []*watcher
		for _, o := range l.watchers {
			if o != w {
				rest = append(rest, o)
			}
		}
		l.watchers = rest
	}
}

// SetBeforeRecycle sets f, called by Trim before segments that hold records below a position are recycled. f may append (AppendReserved)
// and Sync. When it fails nothing is recycled.
func (l *Log) SetBeforeRecycle(f func(before uint64) error) { l.mu.Lock(); l.hook = f; l.mu.Unlock() }

// Stats are counts since Open and sizes now.
type Stats struct {
	Records, Frames, Syncs uint64
	BytesAppended          uint64 // record bytes handed to Append, with a length of 1 to 4 bytes each
	BytesWritten           uint64 // frame bytes handed to the file system, without the zeroing of new segments
	PagesWritten           uint64 // 4 KiB pages that those touched: about what reaches the device
	SegmentsMade           uint64
	SegmentsRecycled       uint64
	DamagedReads           uint64 // frames that Open found good and a reader found bad
	LiveBytes              int64  // of the segments in use
	DiskBytes              int64  // with the spare ones
	MaxBytes               int64
	Full                   bool
	Failed                 error  // nil while it works
	Waits                  string // why a write waits: the disk is full or read-only; "": none does
}

// Stats may be called at any time.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.LiveBytes, s.Full, s.MaxBytes = sizeOf(l.segments), l.full, l.o.MaxBytes
	s.DiskBytes = s.LiveBytes + sizeOf(l.free)
	if errors.Is(l.err, ErrFailed) {
		s.Failed = l.err
	}
	return s
}

func sizeOf(list []*segment) (n int64) {
	for _, s := range list {
		n += s.size
	}
	return n
}

// Close commits what was appended, ends the committer and closes the files. It returns the error that ended the log, if
// one did. Readers get ErrClosed. Repeating it is harmless.
func (l *Log) Close() error {
	l.mu.Lock()
	again := l.closing
	l.closing = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.wake()
	<-l.done
	if again {
		return nil
	}
	l.trimming.Lock()
	defer l.trimming.Unlock()
	l.files.Lock()
	defer l.files.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.err
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	l.err = ErrClosed
	for _, list := range [][]*segment{l.segments, l.free} {
		for _, s := range list {
			if cerr := s.file.Close(); cerr != nil {
				err = errors.Join(err, fmt.Errorf("close %s: %w", s.name, cerr))
			}
		}
	}
	return err
}
