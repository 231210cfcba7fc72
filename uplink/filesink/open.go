package filesink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/durable"
)

// Open reads the file, cuts a torn tail, and records a new incarnation or generation before it answers.
func (s *Sink) Open(_ context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	_ = s.Close() // nothing that it has is unsynced but what will be read anew
	s.stream, s.inc = stream, inc
	if err := s.openFile(generation); err != nil {
		return uplink.Progress{}, errors.Join(err, s.Close())
	}
	defer s.unlock()
	if inc.Less(s.state.inc) || generation < s.state.opened {
		return uplink.Progress{}, s.fenced(&s.state)
	}
	if s.state.inc.Less(inc) || s.state.opened < generation {
		last, chain := s.state.seq, s.state.chain
		if generation > s.state.generation {
			last, chain = 0, 0
		}
		at := s.state.end
		s.buf = appendOpen(s.buf[:0], stream, inc, generation, last, chain)
		if err := s.append(s.buf); err != nil {
			return uplink.Progress{}, err
		}
		s.state.inc, s.state.opened, s.state.unsure = inc, generation, at
	}
	return uplink.Progress{Generation: s.state.generation, Incarnation: inc, Seq: s.state.seq, Chain: s.state.chain}, nil
}

// openFile opens or makes the file and brings it to a state that is durable. The lock is held on success.
func (s *Sink) openFile(generation uint64) (err error) {
	s.file, err = os.OpenFile(s.config.Path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = durable.MakeDir(filepath.Dir(s.config.Path))
		if err == nil {
			err = s.create(generation)
		}
		if err != nil {
			return fmt.Errorf("make sink file: %w", err)
		}
		s.file, err = os.OpenFile(s.config.Path, os.O_RDWR, 0)
	}
	if err != nil {
		return fmt.Errorf("open sink file: %w", err)
	}
	if err := s.lock(); err != nil {
		return err
	}
	if err := s.recover(); err != nil {
		s.unlock()
		return err
	}
	return nil
}

// recover reads the file and rewrites what may not be durable: what a killed process or a failed sync left in the page
// cache proves nothing.
func (s *Sink) recover() error {
	st, err := scan(io.NewSectionReader(s.file, 0, 1<<62))
	if err != nil {
		return err
	}
	if !st.found || st.stream != s.stream.String() {
		return fmt.Errorf("%w: %s holds stream %q; move it away, or give the sink another path", ErrForeign, s.config.Path, st.stream)
	}
	s.state, s.Damaged = st, st.damaged
	tail := make([]byte, st.end-st.unsure)
	if _, err := s.file.ReadAt(tail, st.unsure); err != nil {
		return fmt.Errorf("read end of sink file: %w", err)
	}
	if _, err := s.file.WriteAt(tail, st.unsure); err != nil {
		return fmt.Errorf("rewrite end of sink file: %w", err)
	}
	if err := s.file.Truncate(st.end); err != nil {
		return fmt.Errorf("cut torn end of sink file: %w", err)
	}
	if err := s.sync(); err != nil {
		return err
	}
	s.size, s.first = st.end, 0
	return nil
}

// create makes the file with its opening, as a whole. When files were closed before, the run goes on behind the newest.
func (s *Sink) create(generation uint64) error {
	var before state
	names, err := s.closed()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		f, err := os.Open(names[len(names)-1])
		if err != nil {
			return err
		}
		before, err = scan(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if before.found {
		return s.replace(before.inc, before.generation, before.seq, before.chain, "")
	}
	return s.replace(s.inc, generation, 0, 0, "")
}
