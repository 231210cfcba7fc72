package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/store/log"
)

// streamPrefix begins the names of the directories of streams; sharedSuffix ends those of segments, which lie in the outbox's own directory
// only where an earlier build had one log for all sinks.
const streamPrefix, sharedSuffix = "s-", ".seg"

// streamDir is where the log of a sink lies. A uid may hold what a file system does not take, so the name is its hash; the records
// say whose they are, and recovery compares.
func streamDir(dir, uid string) string {
	return filepath.Join(dir, fmt.Sprintf("%s%016x", streamPrefix, xxhash.Sum64String(uid)))
}

// logBytes is the bound of a stream's log: what its payloads may take, a fourth for what stands beside them, and the segments that can be
// neither trimmed nor filled. maxBytes 0: the config's.
func (c *Config) logBytes(maxBytes int64) int64 {
	if maxBytes == 0 {
		return c.Log.MaxBytes
	}
	return maxBytes + maxBytes/4 + 4*c.Log.SegmentBytes
}

// DiskBytes is the most that the log of a stream with StreamOptions.MaxBytes takes of the disk, the recycled segments included.
func (c *Config) DiskBytes(maxBytes int64) int64 {
	return c.logBytes(maxBytes) + int64(c.Log.SpareSegments)*c.Log.SegmentBytes
}

// openLog recovers the stream's log, or makes an empty one: a directory and a goroutine. It takes a segment with the first record.
func (s *Stream) openLog(dir string, rec *Recovery) error {
	o := &s.o.o
	l, lr, err := log.Open(log.Options{FS: o.FS, Dir: dir, Config: s.o.config.Log, Stamp: o.Stamp, Codec: o.Codec, Logger: o.Logger, Waiting: o.Waiting})
	if err != nil {
		return fmt.Errorf("open outbox log: %w", err)
	}
	rec.Records += lr.Records
	s.log = l
	s.unwatch = l.OnFull(func(full bool) {
		if !full {
			signal(s.room)
		}
	})
	if o.Failed != nil {
		l.OnDurable(func(_ uint64, err error) {
			if err != nil {
				o.Failed(fmt.Errorf("outbox of sink %s: %w", s.uid, err))
			}
		})
	}
	if err := s.recover(rec); err != nil {
		return errors.Join(fmt.Errorf("read outbox log: %w", err), s.closeLog())
	}
	return nil
}

// closeLog is for a stream that is closed.
func (s *Stream) closeLog() error {
	s.unwatch()
	return s.log.Close()
}

// stuck tells whether the stream's log has reached its own bound (not that of the disk) and no result may leave.
func (s *Stream) stuck() bool {
	if l := s.log.Stats(); !l.Full || l.LiveBytes < l.MaxBytes/10*7 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visible() <= s.confirmed
}

// anyWaits is for the planted fault sharedPin: what one log for all sinks did.
func (o *Outbox) anyWaits() bool {
	for _, s := range o.sorted() {
		if s.Stats().Waiting > 0 {
			return true
		}
	}
	return false
}

// streamDirs lists the directories of streams. ErrLayout when there is one log that all sinks share.
func (o *Outbox) streamDirs() (dirs []string, err error) {
	names, err := o.o.FS.List(o.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, o.o.FS.MkdirAll(o.o.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", o.o.Dir, err)
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, streamPrefix):
			dirs = append(dirs, filepath.Join(o.o.Dir, name))
		case strings.HasSuffix(name, sharedSuffix):
			return nil, fmt.Errorf("%w: %s", ErrLayout, o.o.Dir)
		}
	}
	return dirs, nil
}
