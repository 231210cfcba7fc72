package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Content is what goes into a savepoint.
type Content struct {
	Head  Head
	State pipeline.StateSource
	// Results calls each for the results (Confirmed, Seq] of a sink of Head.Sinks, in order. They are asked for first: the caller keeps the
	// sender from confirming meanwhile.
	Results func(s *Sink, each func(r *pipeline.Result) error) error
	// Copied, if not nil, is called behind the last result: the rest takes longer.
	Copied func()
	// Whole, if not nil, is asked behind the last entry whether nothing was left out.
	Whole func() error
}

// Create writes a savepoint to the file name: whole and durable on return, and after a crash at any instant whole or absent (a leftover
// NAME.tmp is replaced by the next try). What was written is read again and verified before it gets its name. A file of that name must not exist:
// a savepoint is never overwritten.
func Create(ctx context.Context, fsys disk.FS, name string, c Content, codec *log.Codec, told func(n int64)) (Summary, error) {
	if f, err := fsys.Open(name); err == nil {
		f.Close()
		return Summary{}, fmt.Errorf("create savepoint %s: %w", name, fs.ErrExist)
	}
	if err := fsys.MkdirAll(filepath.Dir(name)); err != nil {
		return Summary{}, fmt.Errorf("create savepoint: %w", err)
	}
	tmp := name + ".tmp"
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Summary{}, fmt.Errorf("create savepoint: %w", err)
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return Summary{}, fmt.Errorf("create savepoint: %w", err)
	}
	sum, err := fill(ctx, f, c, codec, told)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = Open(ctx, f, int64(sum.Bytes), codec, nil)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		_ = fsys.Remove(tmp) // the next try does it, if it is there still
		return Summary{}, fmt.Errorf("create savepoint %s: %w", name, err)
	}
	return sum, nil
}

// fill writes the content from the front of f on. told hears how many bytes were written.
func fill(ctx context.Context, f disk.File, c Content, codec *log.Codec, told func(n int64)) (Summary, error) {
	out := &forward{ctx: ctx, f: f, told: told}
	w, err := NewWriter(out, c.Head, codec)
	if err != nil {
		return Summary{}, err
	}
	for i := range c.Head.Sinks {
		s := &c.Head.Sinks[i]
		if s.Confirmed == s.Seq {
			continue
		}
		if err := c.Results(s, func(r *pipeline.Result) error { return w.Result(i, r) }); err != nil {
			return Summary{}, err
		}
	}
	if c.Copied != nil {
		c.Copied()
	}
	for i := range c.Head.Tables {
		t := &c.Head.Tables[i]
		_, found, err := c.State.Entries(t.UID, t.Name, func(key, sub, val []byte) error { return w.Entry(i, key, sub, val) })
		if err != nil {
			return Summary{}, err
		}
		if !found {
			return Summary{}, fmt.Errorf("BUG: the state has no table %s/%s", t.UID, t.Name)
		}
	}
	if c.Whole != nil {
		if err := c.Whole(); err != nil {
			return Summary{}, err
		}
	}
	sum, err := w.Close()
	if err == nil {
		err = out.flush()
	}
	return sum, err
}

// writeBytes is how much is written to the file at once.
const writeBytes = 256 << 10

// forward is an io.Writer that goes through a file once, in large pieces, and stops when ctx ends.
type forward struct {
	ctx  context.Context
	f    io.WriterAt
	told func(n int64)
	off  int64
	buf  []byte
}

func (w *forward) Write(b []byte) (int, error) {
	w.buf = append(w.buf, b...)
	if len(w.buf) < writeBytes {
		return len(b), nil
	}
	return len(b), w.flush()
}

func (w *forward) flush() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	n, err := w.f.WriteAt(w.buf, w.off)
	w.off += int64(n)
	w.buf = w.buf[:0]
	if w.told != nil {
		w.told(w.off)
	}
	return err
}
