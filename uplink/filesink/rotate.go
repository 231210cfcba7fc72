package filesink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/durable"
)

// rotate closes the file under a name that sorts and begins a new one. The batch is durable already: an error only says
// that the sink must be opened again.
func (s *Sink) rotate() error {
	name := fmt.Sprintf("%s.%010d-%020d", s.config.Path, s.state.generation, s.first)
	if err := s.replace(s.state.inc, s.state.generation, s.state.seq, s.state.chain, name); err != nil {
		return errors.Join(err, s.Close())
	}
	f, err := os.OpenFile(s.config.Path, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close(), s.Close())
	}
	_ = s.file.Close() // it was synced
	s.file, s.size, s.first = f, info.Size(), 0
	s.state.end, s.state.unsure = s.size, 0
	return s.prune()
}

// prune removes the oldest closed files beyond Keep.
func (s *Sink) prune() error {
	if s.config.Keep == 0 {
		return nil
	}
	names, err := s.closed()
	if err != nil {
		return err
	}
	for ; len(names) > s.config.Keep; names = names[1:] {
		if err := os.Remove(names[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// closed names the closed files, oldest first.
func (s *Sink) closed() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(s.config.Path))
	if err != nil {
		return nil, err
	}
	prefix := filepath.Base(s.config.Path) + "."
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && len(rest) == 31 && rest[10] == '-' {
			names = append(names, filepath.Join(filepath.Dir(s.config.Path), e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}

// replace makes a fresh file under the sink's name; the one that has the name is moved to closed first.
func (s *Sink) replace(inc uplink.Incarnation, generation, last, chain uint64, closed string) error {
	tmp := s.config.Path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(appendOpen(nil, s.stream, inc, generation, last, chain))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if closed != "" {
		if err := os.Rename(s.config.Path, closed); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, s.config.Path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(s.config.Path))
}
