package log

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// Recovery tells what Open found.
type Recovery struct {
	Segments, Spare int
	Records         uint64 // held
	Lost            []Lost // damage and positions left out, as far as still held, in order
	TornBytes       int64  // of unacknowledged frames that a power cut left incomplete; cut off
	RewrittenBytes  int64  // of the tail, written again and synced (RULES 8)
	LastStamp       pipeline.Stamp
	LastTrusted     pipeline.Stamp // of the newest frame whose clock was trusted; zero: none is held
}

// Lost is a range of positions without records.
type Lost struct {
	First, Last uint64
	Reason      string
	// Aside is the file that keeps the damaged bytes; "" when there are none.
	Aside string
	// LeftOut: on purpose (SkipTo). Nothing is lost.
	LeftOut bool
	// Known: an earlier Open has found it, and told.
	Known bool
}

// Open opens the log in a directory, which it makes. It recovers what a crash left: DESIGN.md, "Recovery". On return everything up to
// Last is durable. ErrVersion, ErrFlags: a newer agent wrote here; nothing was changed.
func Open(o Options) (*Log, *Recovery, error) { return open(o, plantedFaults(o.Dir)) }

func open(o Options, bugs faults) (*Log, *Recovery, error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Codec == nil {
		o.Codec = NewCodec()
	}
	bugs.frameRaw = cmp.Or(bugs.frameRaw, frameRawBytes)
	l := &Log{o: o, bugs: bugs, kick: make(chan struct{}, 1), due: time.NewTimer(time.Hour), done: make(chan struct{}), moved: make(chan struct{}), lostAt: map[uint64]lostRange{}}
	l.room.L = &l.mu
	rec, err := l.recover()
	if err != nil {
		l.closeFiles()
		return nil, nil, fmt.Errorf("open log %s: %w", o.Dir, err)
	}
	l.judgeFull()
	l.due.Stop()
	go l.run()
	return l, rec, nil
}

func (l *Log) closeFiles() {
	for _, s := range append(l.segments[:len(l.segments):len(l.segments)], l.free...) {
		_ = s.file.Close() // nothing was written that counts
	}
}

// recover builds the log from its directory and makes it durable.
func (l *Log) recover() (*Recovery, error) {
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	found, err := l.scanDir()
	if err != nil {
		return nil, err
	}
	rec := &Recovery{}
	s := survey{l: l, rec: rec, reach: map[*segment]uint64{}}
	if err := s.walkAll(found); err != nil {
		return nil, err
	}
	if !l.bugs.tailNotSynced {
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	l.next = max(s.next, 1)
	l.first = l.next
	if len(l.segments) > 0 {
		l.first = l.segments[0].first
		l.last = l.segments[len(l.segments)-1]
	}
	l.durable, l.stamp = l.next-1, s.stamp
	if upTo := max(l.o.After, s.jump); upTo >= l.next {
		if err := l.leaveOut(l.next, upTo, rec); err != nil {
			return nil, err
		}
	}
	if err := s.putAside(); err != nil {
		return nil, err
	}
	for _, g := range l.segments {
		for _, f := range g.frames {
			if f.size > 0 {
				rec.Records += f.last + 1 - f.first
			}
		}
	}
	rec.Segments, rec.Spare, rec.LastStamp = len(l.segments), len(l.free), l.stamp
	for _, lost := range rec.Lost {
		if lost.LeftOut {
			l.o.Logger.Info("log positions are left out on purpose", "dir", l.o.Dir, "first", lost.First, "last", lost.Last)
			continue
		}
		if lost.Known && !l.bugs.tellAgain {
			l.o.Logger.Info("log has a range whose loss was told of before", "dir", l.o.Dir, "first", lost.First, "last", lost.Last, "aside", lost.Aside)
			continue
		}
		l.o.Logger.Error("log records lost", "dir", l.o.Dir, "first", lost.First, "last", lost.Last, "reason", lost.Reason, "aside", lost.Aside)
	}
	return rec, nil
}

// leaveOut writes durably that positions will never have records.
func (l *Log) leaveOut(first, last uint64, rec *Recovery) error {
	h := header{flags: flagLost, first: first, last: last, syncedThrough: l.durable, stamp: l.stamp}
	if err := l.writeFrame(&h, nil, nil); err != nil {
		return err
	}
	if err := l.last.sync(); err != nil {
		return err
	}
	l.next, l.durable = last+1, last
	l.lostAt[first] = lostRange{stamp: l.stamp}
	rec.Lost = append(rec.Lost, Lost{First: first, Last: last, Reason: "positions were given out before and their records are not here"})
	return nil
}

// found is a segment file as its first sector describes it.
type found struct {
	*segment
	head  header
	err   error // of the first sector; ErrMagic for a new file
	empty bool  // a new file: nothing but zeros in the first sector
}

// scanDir opens the segment files. Leftover temporary files are removed.
func (l *Log) scanDir() ([]found, error) {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list directory: %w", err)
	}
	var list []found
	for _, base := range names {
		name := filepath.Join(l.o.Dir, base)
		if strings.HasSuffix(base, segmentSuffix+tmpSuffix) {
			if err := l.o.FS.Remove(name); err != nil {
				return nil, fmt.Errorf("remove leftover: %w", err)
			}
			continue
		}
		number, ok := parseSegmentName(base)
		if !ok {
			continue
		}
		l.number = max(l.number, number)
		f, err := l.o.FS.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open segment: %w", err)
		}
		g := found{segment: &segment{file: f, name: name, number: number}}
		if g.size, err = f.Size(); err != nil {
			return nil, errors.Join(fmt.Errorf("ask size of %s: %w", name, err), f.Close())
		}
		var b [headerBytes]byte
		rerr := readPatiently(g.segment, b[:], 0)
		g.empty = rerr == nil && b == [headerBytes]byte{}
		if g.head, _, g.err = parse(b[:]); g.err == nil && g.head.flags&(flagStart|flagFree) == 0 {
			g.err = ErrCorrupt
		}
		if errors.Is(g.err, ErrVersion) || errors.Is(g.err, ErrFlags) {
			return nil, errors.Join(fmt.Errorf("read %s: %w", name, g.err), f.Close())
		}
		list = append(list, g)
	}
	return list, nil
}
