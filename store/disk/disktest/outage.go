package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Taken is what an Outage took back.
type Taken struct {
	Writes, Torn, Names int   // lost; torn; names as before
	Kept                int   // changes that were not synced and came through
	Bytes               int64 // lost
}

func (t Taken) String() string {
	return fmt.Sprintf("%d writes lost (%d bytes), %d torn, %d names undone, %d unsynced changes kept", t.Writes, t.Bytes, t.Torn, t.Names, t.Kept)
}

// Add sums up.
func (t *Taken) Add(o Taken) {
	t.Writes, t.Torn, t.Names, t.Kept, t.Bytes = t.Writes+o.Writes, t.Torn+o.Torn, t.Names+o.Names, t.Kept+o.Kept, t.Bytes+o.Bytes
}

// Outage makes of what a killed process left what a power cut might have: of the changes that a Recorder in dir saw and that were not
// synced, random decides which come through, in any order, and one write may be torn at a sector. nil: nothing comes through. What is
// left is durable; the records begin anew. No process may be recording.
func Outage(dir string, random *rand.Rand) (Taken, error) {
	b, err := os.ReadFile(filepath.Join(dir, entriesName))
	if errors.Is(err, fs.ErrNotExist) {
		return Taken{}, nil
	}
	if err != nil {
		return Taken{}, fmt.Errorf("read records: %w", err)
	}
	entries, _ := decodeEntries(b)
	o := outage{dir: dir, open: unsynced(entries), keep: func() bool { return false }}
	if random != nil {
		o.choose(random)
	}
	if err := o.run(); err != nil {
		return o.taken, err
	}
	return o.taken, forget(dir)
}

// Unsynced tells how many bytes are written and not synced in files below a directory.
func Unsynced(dir, below string) (n int64, err error) {
	b, err := os.ReadFile(filepath.Join(dir, entriesName))
	if err != nil {
		return 0, err
	}
	entries, _ := decodeEntries(b)
	inside := map[uint64]bool{}
	for _, e := range unsynced(entries) {
		if e.kind != kindWrite {
			continue
		}
		in, known := inside[e.node]
		if !known {
			if in, err = linkedBelow(below, heldName(dir, e.node)); err != nil {
				return 0, err
			}
			inside[e.node] = in
		}
		if in {
			n += int64(len(e.data))
		}
	}
	return n, nil
}

// linkedBelow tells whether a directory has a name of the same file.
func linkedBelow(below, held string) (bool, error) {
	want, err := os.Stat(held)
	if err != nil {
		return false, err
	}
	list, err := os.ReadDir(below)
	if err != nil {
		return false, err
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && os.SameFile(info, want) {
			return true, nil
		}
	}
	return false, nil
}

// unsynced gives the changes that no sync covers, in order. A rename counts for the directory of its new name.
func unsynced(entries []entry) (open []entry) {
	data, names := map[uint64]uint64{}, map[string]uint64{}
	for _, e := range entries {
		switch e.kind {
		case kindSync:
			data[e.node] = max(data[e.node], e.upTo)
		case kindSyncDir:
			names[e.path] = max(names[e.path], e.upTo)
		}
	}
	for i, e := range entries {
		switch e.kind {
		case kindWrite, kindTruncate:
			if uint64(i) >= data[e.node] {
				open = append(open, e)
			}
		case kindName, kindRename:
			if uint64(i) >= names[filepath.Dir(e.path)] {
				open = append(open, e)
			}
		}
	}
	return open
}

type outage struct {
	dir   string
	open  []entry
	keep  func() bool
	torn  int  // index in open, -1: none
	sizes bool // a lost write may have grown its file: it is zeros there
	split func(sectors int64) int64
	taken Taken
}

// choose draws how much comes through.
func (o *outage) choose(r *rand.Rand) {
	o.torn, o.sizes = -1, r.IntN(2) == 0
	o.split = r.Int64N
	percent := []int{0, 10, 50, 90, 100}[r.IntN(5)]
	o.keep = func() bool { return r.IntN(100) < percent }
	if len(o.open) > 0 && r.IntN(2) == 0 {
		o.torn = len(o.open) - 1 - r.IntN(min(len(o.open), 3)) // the newest: those that a cut meets under way
	}
}

// run takes everything back, newest first, and does again what comes through.
func (o *outage) run() error {
	for i := len(o.open) - 1; i >= 0; i-- {
		if err := o.undo(&o.open[i]); err != nil {
			return err
		}
	}
	for i := range o.open {
		e := &o.open[i]
		switch {
		case o.split != nil && i == o.torn && e.kind == kindWrite && o.tear(e):
			o.taken.Torn++
		case o.keep():
			o.taken.Kept++
		case e.kind == kindWrite || e.kind == kindTruncate:
			o.taken.Writes++
			o.taken.Bytes += int64(len(e.data))
			if o.sizes && e.kind == kindWrite {
				if err := o.grow(e); err != nil {
					return err
				}
			}
			continue
		default:
			o.taken.Names++
			continue
		}
		if err := o.redo(e); err != nil {
			return err
		}
	}
	return nil
}

// tear leaves the head of a write, or its tail, up to the boundary of a sector. A write within one sector cannot be torn.
func (o *outage) tear(e *entry) bool {
	first := e.off / SectorBytes
	sectors := (e.off+int64(len(e.data))-1)/SectorBytes - first
	if sectors < 1 {
		return false
	}
	at := (first+1+o.split(sectors))*SectorBytes - e.off
	if o.split(2) == 0 {
		e.data = e.data[:at]
	} else {
		e.off, e.data = e.off+at, e.data[at:]
	}
	return true
}

func (o *outage) undo(e *entry) error {
	switch e.kind {
	case kindName:
		return o.point(e.path, e.prev)
	case kindRename:
		return errors.Join(o.point(e.path, e.prev), o.point(e.from, e.node))
	}
	return o.change(e.node, func(f *os.File) error {
		if _, err := f.WriteAt(e.old, e.off); err != nil {
			return err
		}
		return f.Truncate(e.size)
	})
}

func (o *outage) redo(e *entry) error {
	switch e.kind {
	case kindName:
		return o.point(e.path, e.node)
	case kindRename:
		return errors.Join(o.point(e.path, e.node), o.point(e.from, 0))
	case kindTruncate:
		return o.change(e.node, func(f *os.File) error { return f.Truncate(e.off) })
	}
	return o.change(e.node, func(f *os.File) error {
		_, err := f.WriteAt(e.data, e.off)
		return err
	})
}

func (o *outage) grow(e *entry) error {
	return o.change(e.node, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil || info.Size() >= e.off+int64(len(e.data)) {
			return err
		}
		return f.Truncate(e.off + int64(len(e.data)))
	})
}

func (o *outage) change(ino uint64, do func(*os.File) error) error {
	f, err := os.OpenFile(heldName(o.dir, ino), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("take back: %w", err)
	}
	if err := errors.Join(do(f), f.Close()); err != nil {
		return fmt.Errorf("take back: %w", err)
	}
	return nil
}

// point makes a name that of a held file, or of nothing.
func (o *outage) point(path string, ino uint64) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take back name: %w", err)
	}
	if ino == 0 {
		return nil
	}
	if err := os.Link(heldName(o.dir, ino), path); err != nil {
		return fmt.Errorf("take back name: %w", err)
	}
	return nil
}

// forget empties the directory of a Recorder.
func forget(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("forget records: %w", err)
	}
	for _, e := range list {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("forget records: %w", err)
		}
	}
	return nil
}
