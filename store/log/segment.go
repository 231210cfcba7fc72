package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/weirstream/weir/store/disk"
)

// segment is one file of frames. The committer appends to the last one in use; the others do not change until Trim.
type segment struct {
	file   disk.File
	name   string // with the directory
	number uint64
	size   int64
	epoch  uint64
	first  uint64 // position of its first record
	frames []frameRef
	end    int64 // behind the last frame
	dirty  bool  // written since the last sync; the committer's
	reused bool  // its file was in use before
}

// frameRef says where a frame lies; size 0: the positions are lost.
type frameRef struct {
	off         int64
	first, last uint64
	size        int
}

// find gives the frame that holds pos. The caller knows that there is one.
func (s *segment) find(pos uint64) frameRef {
	return s.frames[sort.Search(len(s.frames), func(i int) bool { return s.frames[i].last >= pos })]
}

// last is the last position in the segment, first-1 when it is empty.
func (s *segment) last() uint64 {
	if n := len(s.frames); n > 0 {
		return s.frames[n-1].last
	}
	return s.first - 1
}

const segmentSuffix, tmpSuffix = ".seg", ".tmp"

// segmentName and parseSegmentName are inverse. The number only tells files apart: order is by epoch.
func segmentName(n uint64) string { return fmt.Sprintf("%08d%s", n, segmentSuffix) }

func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && segmentName(n) == name
}

func align(off, to int64) int64 { return (off + to - 1) &^ (to - 1) }

// place is where a frame of n bytes goes behind end: directly, or at the next page when that touches fewer pages. A frame
// that fits a page never straddles two.
func place(end int64, n int) int64 {
	off := align(end, frameAlign)
	if page := align(off, pageBytes); pages(page, n) < pages(off, n) {
		return page
	}
	return off
}

func pages(off int64, n int) int64 { return (off+int64(n)-1)/pageBytes - off/pageBytes + 1 }

// createSegment makes a segment file under a temporary name, zeroed and synced, then gives it its name, durably.
func createSegment(fsys disk.FS, dir string, number uint64, size int64, syncDir bool) (*segment, error) {
	name := filepath.Join(dir, segmentName(number))
	tmp := name + tmpSuffix
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove %s: %w", tmp, err)
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := disk.Preallocate(f, size); err != nil {
		// An unsynced temporary file is harmless; its removal may fail harmlessly too: it is replaced next time.
		return nil, errors.Join(fmt.Errorf("fill segment %s: %w", tmp, err), f.Close(), fsys.Remove(tmp))
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return nil, errors.Join(fmt.Errorf("rename segment: %w", err), f.Close())
	}
	if syncDir {
		if err := fsys.SyncDir(dir); err != nil {
			return nil, errors.Join(fmt.Errorf("sync log directory: %w", err), f.Close())
		}
	}
	return &segment{file: f, name: name, number: number, size: size}, nil
}

// mark writes the first sector of a segment: flagStart or flagFree. The header lies within one sector: after a power cut it is the
// old one or the new one.
func (s *segment) mark(flags byte, epoch, first, synced uint64) error {
	var b [headerBytes]byte
	h := header{flags: flags, epoch: epoch, first: first, last: first - 1, syncedThrough: synced}
	h.seal(b[:])
	if _, err := s.file.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("mark %s: %w", s.name, err)
	}
	return nil
}

func (s *segment) sync() error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.name, err)
	}
	s.dirty = false
	return nil
}
