package log

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// survey walks the segments at Open. It decides what is held, lost and cut, and then settles it: durable before any reader.
type survey struct {
	l      *Log
	rec    *Recovery
	next   uint64 // position wanted next
	synced uint64 // highest synced_through seen
	stamp  pipeline.Stamp
	jump   uint64              // nothing in use was readable: positions up to here are left out
	aside  []*segment          // unreadable
	repair []*segment          // whose first sector is damaged
	reach  map[*segment]uint64 // last position in those

	buf     []byte  // read into, segment after segment
	tailBuf []byte  // content of the last segment
	wipe    []int64 // frames behind the cut: they were never acknowledged and must not come back
}

// positionJump is left out when files exist and none can be read: more than two segments can hold.
const positionJump = 1 << 40

// walkAll sorts the files into segments in use and recycled ones, and walks the former in order of epoch.
func (s *survey) walkAll(list []found) error {
	l := s.l
	var live []*segment
	for _, g := range list {
		l.epoch = max(l.epoch, g.head.epoch)
		switch {
		case g.empty:
			l.free = append(l.free, g.segment)
		case g.err == nil && g.head.flags&flagFree != 0:
			g.epoch, g.first = g.head.epoch, g.head.first
			l.free = append(l.free, g.segment)
		case g.err == nil:
			g.epoch, g.first = g.head.epoch, g.head.first
			live = append(live, g.segment)
		default:
			if !s.adopt(g.segment) {
				s.aside = append(s.aside, g.segment)
				continue
			}
			live = append(live, g.segment)
			s.repair = append(s.repair, g.segment)
			l.epoch = max(l.epoch, g.epoch)
		}
	}
	slices.SortFunc(live, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.first, b.first))
	})
	live = s.leaveStale(live)
	l.segments = live
	for i, g := range live {
		limit := uint64(0) // none
		if i+1 < len(live) {
			limit = live[i+1].first
		}
		if err := s.walk(g, limit); err != nil {
			return err
		}
	}
	if len(live) > 0 {
		return nil
	}
	for _, g := range l.free { // the tombstone names the first position that was still held, and what was durable, then
		s.next = max(s.next, g.first)
	}
	if len(s.aside) > 0 {
		s.jump = s.next + positionJump
	}
	return nil
}

// adopt takes a segment whose first sector is damaged for what its frames say: those of the highest epoch.
func (s *survey) adopt(g *segment) bool {
	buf, err := s.read(g)
	if err != nil {
		return false
	}
	for _, f := range framesIn(buf, 0, func(h *header) bool { return h.epoch >= g.epoch }) {
		if f.epoch > g.epoch {
			g.epoch, g.first = f.epoch, f.first
		}
		s.reach[g] = f.last
	}
	return g.epoch > 0
}

// leaveStale takes away adopted segments at the front whose frames do not reach the next segment: a recycled one whose FREE mark was
// damaged looks like that.
func (s *survey) leaveStale(live []*segment) []*segment {
	for len(live) > 1 && slices.Contains(s.repair, live[0]) && s.reach[live[0]]+1 < live[1].first {
		s.aside = append(s.aside, live[0])
		s.repair = slices.DeleteFunc(s.repair, func(g *segment) bool { return g == live[0] })
		live = live[1:]
	}
	return live
}

// putAside renames the segments that hold no readable frame; they are not used again. It comes last: until then a crash finds them
// where they were.
func (s *survey) putAside() error {
	for _, g := range s.aside {
		aside := filepath.Join(s.l.o.Dir, "aside-"+filepath.Base(g.name))
		if err := errors.Join(g.file.Close(), s.l.o.FS.Rename(g.name, aside)); err != nil {
			return fmt.Errorf("set aside %s: %w", g.name, err)
		}
		s.l.o.Logger.Error("log segment is unreadable and was set aside", "file", aside)
	}
	if len(s.aside) == 0 {
		return nil
	}
	return s.l.o.FS.SyncDir(s.l.o.Dir)
}

// read reads a whole file into the one buffer. Pages that cannot be read are zero: their frames count as damaged.
func (s *survey) read(g *segment) ([]byte, error) {
	if int64(cap(s.buf)) < g.size {
		s.buf = make([]byte, g.size)
	}
	b := s.buf[:g.size]
	clear(b)
	if n, err := g.file.ReadAt(b, 0); n == len(b) || errors.Is(err, io.EOF) {
		return b, nil
	}
	good := 0
	for off := int64(0); off < g.size; off += pageBytes {
		page := b[off:min(off+pageBytes, g.size)]
		if readPatiently(g, page, off) != nil {
			clear(page)
			continue
		}
		good++
	}
	if good == 0 {
		return nil, fmt.Errorf("read %s: no page can be read", g.name)
	}
	return b, nil
}

// readAttempts are made for a page before it counts as unreadable: a passing error must not look like damage.
const readAttempts = 4

func readPatiently(g *segment, b []byte, off int64) (err error) {
	n := 0
	for range readAttempts {
		if n, err = g.file.ReadAt(b, off); n == len(b) || errors.Is(err, io.EOF) {
			return nil
		}
	}
	return err
}

// walk follows the frames of one segment from position s.next on. limit is the first position of the next segment, 0 for the last.
func (s *survey) walk(g *segment, limit uint64) error {
	buf, err := s.read(g)
	if err != nil {
		return err
	}
	if limit == 0 {
		s.tailBuf = buf
	}
	switch {
	case s.next == 0:
		s.next = g.first
	case g.first > s.next:
		if err := s.missing(g); err != nil {
			return err
		}
	}
	off := int64(headerBytes)
	for {
		h, at, err := s.frameAt(g, buf, off)
		if err == nil {
			s.take(g, h, at)
			off = g.end
			continue
		}
		if errors.Is(err, ErrVersion) || errors.Is(err, ErrFlags) {
			return fmt.Errorf("read %s at %d: %w", g.name, at, err)
		}
		g.end = max(g.end, off)
		if limit != 0 && s.next >= limit {
			return nil
		}
		later := framesIn(buf, off, func(h *header) bool {
			return h.epoch == g.epoch && h.first > s.next && (limit == 0 || h.last < limit)
		})
		if limit == 0 && !slices.ContainsFunc(later, func(f placedFrame) bool { return f.syncedThrough >= s.next }) {
			s.cut(g, buf, off)
			return nil
		}
		to, lost := g.size, limit-1
		if len(later) > 0 {
			to, lost = later[0].off, later[0].first-1
		}
		if err := s.damage(g, buf, off, to, lost); err != nil {
			return err
		}
		if len(later) == 0 {
			return nil
		}
		s.take(g, later[0].header, to)
		off = g.end
	}
}

// frameAt verifies the frame that continues the log behind off: directly there, or at the next page. The error is of the first
// place unless the second holds an intact frame of a newer version.
func (s *survey) frameAt(g *segment, buf []byte, off int64) (header, int64, error) {
	var first error
	for _, at := range [...]int64{align(off, frameAlign), align(off, pageBytes)} {
		if at+headerBytes > int64(len(buf)) {
			continue
		}
		h, _, err := parse(buf[at:])
		if err == nil && !s.l.bugs.noEpoch && (h.epoch != g.epoch || h.first != s.next) {
			err = ErrMagic
		}
		if err == nil && s.l.bugs.noEpoch && h.flags&(flagStart|flagFree) != 0 {
			err = ErrMagic
		}
		if err == nil || errors.Is(err, ErrVersion) || errors.Is(err, ErrFlags) {
			return h, at, err
		}
		first = cmp.Or(first, err)
	}
	return header{}, 0, cmp.Or(first, ErrMagic)
}

// take adds a good frame to the segment's index.
func (s *survey) take(g *segment, h header, at int64) {
	size := headerBytes + int(h.bodyBytes)
	ref := frameRef{off: at, first: h.first, last: h.last, size: size}
	if h.flags&flagLost != 0 {
		ref.size = 0
		s.l.lostAt[h.first] = lostRange{stamp: h.stamp, leftOut: h.leftOut}
		s.rec.Lost = append(s.rec.Lost, Lost{First: h.first, Last: h.last, Reason: "positions were left out", LeftOut: h.leftOut, Known: true})
	}
	g.frames = append(g.frames, ref)
	g.end = at + int64(size)
	s.next, s.synced, s.stamp = h.last+1, max(s.synced, h.syncedThrough), h.stamp
	if h.stamp.Trusted {
		s.rec.LastTrusted = h.stamp
	}
}

// cut ends the log at off in the last segment: what follows was never acknowledged.
func (s *survey) cut(g *segment, buf []byte, off int64) {
	torn := int64(0)
	for _, f := range framesIn(buf, off, func(h *header) bool { return h.epoch == g.epoch }) {
		s.wipe = append(s.wipe, f.off)
		torn += int64(headerBytes + f.bodyBytes)
	}
	for _, at := range [...]int64{align(off, frameAlign), align(off, pageBytes)} {
		if at+headerBytes > int64(len(buf)) {
			break
		}
		if n, err := frameSize(buf[at:]); err == nil && binary.LittleEndian.Uint64(buf[at+8:]) == g.epoch {
			torn += int64(n)
			if !slices.Contains(s.wipe, at) {
				s.wipe = append(s.wipe, at)
			}
			break
		}
	}
	s.rec.TornBytes += torn
}

// settle writes the tail that is not proven durable again, removes what lies behind the cut, and syncs (RULES 8: what a killed process
// or a failed fsync left in the page cache proves nothing). Names and the newest "free" mark are made durable too.
func (s *survey) settle() error {
	l := s.l
	if n := len(l.segments); n > 0 {
		if err := s.settleTail(l.segments[n-1]); err != nil {
			return err
		}
	}
	for _, g := range s.repair {
		if err := errors.Join(g.mark(flagStart, g.epoch, g.first, g.first-1), g.sync()); err != nil {
			return err
		}
	}
	var newest *segment
	for _, g := range l.free {
		if g.epoch > 0 && (newest == nil || g.epoch > newest.epoch) {
			newest = g
		}
	}
	if newest != nil {
		if err := newest.mark(flagFree, newest.epoch, newest.first, newest.first-1); err != nil {
			return err
		}
		if err := newest.sync(); err != nil {
			return err
		}
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("sync log directory: %w", err)
	}
	return nil
}

func (s *survey) settleTail(g *segment) error {
	l := s.l
	from, begin := g.end, int64(-1)
	for _, f := range g.frames {
		if f.size > 0 && f.last > s.synced {
			begin = f.off
			break
		}
	}
	if begin == headerBytes || len(g.frames) == 0 {
		begin = 0
	}
	if begin >= 0 {
		from = begin
	}
	if from < g.end {
		if _, err := g.file.WriteAt(s.tailBuf[from:g.end], from); err != nil {
			return fmt.Errorf("write tail of %s: %w", g.name, err)
		}
		s.rec.RewrittenBytes = g.end - from
	}
	zero := make([]byte, headerBytes)
	for _, off := range s.wipe {
		if l.bugs.keepStale {
			break
		}
		if _, err := g.file.WriteAt(zero[:min(int64(len(zero)), g.size-off)], off); err != nil {
			return fmt.Errorf("wipe %s at %d: %w", g.name, off, err)
		}
	}
	return g.sync()
}

// placedFrame is an intact frame found by search.
type placedFrame struct {
	header
	off int64
}

// framesIn gives the intact record frames of this version from off on that want accepts, by offset; none lies inside another.
func framesIn(buf []byte, off int64, want func(*header) bool) (list []placedFrame) {
	magic := binary.LittleEndian.AppendUint32(nil, frameMagic)
	for at := align(off, frameAlign); at+headerBytes <= int64(len(buf)); {
		i := bytes.Index(buf[at:], magic)
		if i < 0 {
			break
		}
		at += int64(i)
		if at%frameAlign == 0 {
			h, _, err := parse(buf[at:])
			if err == nil && h.flags&(flagStart|flagFree) == 0 && want(&h) {
				list = append(list, placedFrame{header: h, off: at})
				at += int64(headerBytes) + int64(h.bodyBytes)
				continue
			}
		}
		at++
	}
	return list
}
