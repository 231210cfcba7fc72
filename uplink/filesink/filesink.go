// Package filesink delivers a stream to a file of JSON lines, exactly once. Each line holds its sequence, generation and
// incarnation, so that the file itself tells what it has (RULES 13): Open cuts only a torn tail and goes on behind the last
// whole line. FORMAT.md has the lines.
//
// A batch is durable when Send returns. After a failed write or sync the file is closed and read anew; a sync is never
// tried again.
package filesink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/weirstream/weir/uplink"
)

// Config of one file sink.
type Config struct {
	Path string
	// MaxBytes closes a file that has grown so far, under the name PATH.GENERATION-FIRST; 0: never.
	MaxBytes int64
	// Keep so many closed files; 0: all.
	Keep int
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("file sink path is empty")
	case c.MaxBytes < 0 || c.MaxBytes > 0 && c.MaxBytes < 4096:
		return fmt.Errorf("file sink max_bytes is %d, allowed is 0 or 4096 and more", c.MaxBytes)
	case c.Keep < 0:
		return fmt.Errorf("file sink keep is %d, allowed is 0 or more", c.Keep)
	}
	return nil
}

// ErrForeign says that the file is there and was not written by a file sink for this stream. It is left as it is.
var ErrForeign = errors.New("file was not written by this sink")

// Sink implements uplink.Endpoint for one stream. A lock on the file keeps another process from writing between its look
// and its write.
type Sink struct {
	config Config
	stream uplink.Stream
	inc    uplink.Incarnation
	file   *os.File
	state  state
	first  uint64 // first sequence in the current file, for the name when it is closed
	size   int64
	buf    []byte
	// Damaged counts breaks that Open found among lines that had been synced: media damage. They stay in the file.
	Damaged int
	fail    error // planted by tests: the next sync fails
}

// New checks the configuration; the file is opened by Open.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Sink{config: c}, nil
}

// Guarantee is exactly once.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

// Close closes the file.
func (s *Sink) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// Send appends a batch and syncs. What the file holds already is left out, by sequence.
func (s *Sink) Send(_ context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if s.file == nil {
		return uplink.Answer{}, fmt.Errorf("%w: the sink is not open", uplink.ErrHole)
	}
	if err := s.lock(); err != nil {
		return uplink.Answer{}, err
	}
	defer s.unlock()
	if err := s.admit(b); err != nil {
		return uplink.Answer{}, err
	}
	held := b.Previous
	if b.Generation == s.state.generation {
		held = s.state.seq
	}
	if b.Last <= held {
		return uplink.Answer{Durable: held}, nil
	}
	s.buf = s.buf[:0]
	fresh := *b
	fresh.First = max(b.First, held+1)
	for i := range b.Results {
		r := b.Results[i]
		if r.Last <= held {
			continue
		}
		r.Seq = max(r.Seq, held+1)
		s.buf = appendResult(s.buf, &fresh, &r, r.Last == b.Last)
	}
	at := s.state.end
	if err := s.append(s.buf); err != nil {
		return uplink.Answer{}, err
	}
	s.state.generation, s.state.seq, s.state.chain, s.state.unsure = b.Generation, b.Last, b.Chain(), at
	if s.first == 0 {
		s.first = fresh.First
	}
	if s.config.MaxBytes > 0 && s.size >= s.config.MaxBytes {
		if err := s.rotate(); err != nil {
			return uplink.Answer{}, fmt.Errorf("close sink file: %w", err)
		}
	}
	return uplink.Answer{Durable: b.Last}, nil
}

// admit looks whether the file is still what this sink knows, and whether the batch continues its run.
func (s *Sink) admit(b *uplink.Batch) error {
	mine, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("look at sink file: %w", err)
	}
	named, err := os.Stat(s.config.Path)
	if err != nil || !os.SameFile(mine, named) || mine.Size() != s.size {
		return s.changed(err)
	}
	switch {
	case b.Incarnation.Less(s.state.inc) || b.Generation < s.state.opened:
		return s.fenced(&s.state)
	case b.Incarnation != s.state.inc || b.Generation != s.state.opened:
		return fmt.Errorf("%w: incarnation %s, generation %d did not open", uplink.ErrHole, b.Incarnation, b.Generation)
	case b.Generation == s.state.generation && b.Previous > s.state.seq,
		b.Generation != s.state.generation && b.Generation == 1 && b.Previous > 0:
		return fmt.Errorf("%w: %s ends at %d", uplink.ErrHole, s.config.Path, s.state.seq)
	}
	return nil
}

func (s *Sink) fenced(st *state) error {
	return &uplink.Fenced{Where: s.config.Path, Generation: st.opened, Incarnation: st.inc}
}

// changed says what it means that another writer was here: it was a newer incarnation, or the file was moved away.
func (s *Sink) changed(err error) error {
	if err == nil {
		st, serr := scan(io.NewSectionReader(s.file, 0, 1<<62))
		if serr == nil && st.found && s.state.inc.Less(st.inc) {
			return s.fenced(&st)
		}
	}
	return fmt.Errorf("%w: %s was changed by another writer: %v", uplink.ErrHole, s.config.Path, err)
}

// append writes at the end and syncs. After an error the file is closed: Open reads it anew.
func (s *Sink) append(p []byte) error {
	_, err := s.file.WriteAt(p, s.size)
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", uplink.ErrHole, errors.Join(fmt.Errorf("write sink file: %w", err), s.Close()))
	}
	s.size += int64(len(p))
	s.state.end = s.size
	return nil
}

func (s *Sink) sync() error {
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	return s.file.Sync()
}

// Confirm gives the end of the run: everything that Send accepted is durable.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.state.seq, nil }

func (s *Sink) lock() error {
	if err := syscall.Flock(int(s.file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock sink file: %w", err)
	}
	return nil
}

func (s *Sink) unlock() {
	if s.file != nil {
		_ = syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN) // closing releases it as well
	}
}
