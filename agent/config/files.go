package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/plan"
)

// Files reads the files that a config names. A file larger than join.TableBytesMax need not be read whole.
type Files func(path string) ([]byte, error)

// readFile is Files on the file system. Only regular files: a device or pipe might never end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, join.TableBytesMax+1)) // one more: that is how the plan sees that it is too large
}

// noFiles is for configs that stand alone.
func noFiles(string) ([]byte, error) { return nil, errors.New("files cannot be read here") }

// readLookups reads the files of the lookups, each once.
func (c *Config) readLookups(files Files, problems *plan.Problems) {
	type content struct {
		data []byte
		err  error
	}
	have := map[string]content{}
	for _, p := range c.Pipelines {
		for _, s := range p.Steps {
			l := s.Lookup
			if l == nil || l.File.Value == "" {
				continue
			}
			if lookupFileKind.check(l.File.Value) != "" {
				l.Unread = true // said
				continue
			}
			l.Path = l.File.Value
			if !filepath.IsAbs(l.Path) {
				l.Path = filepath.Join(filepath.Dir(c.File), l.Path)
			}
			read, ok := have[l.Path]
			if !ok {
				read.data, read.err = files(l.Path)
				have[l.Path] = read
			}
			if l.Data = read.data; read.err != nil {
				l.Unread = true
				problems.Add(l.File.Pos, "", "a file that weir may read", "%s", fmt.Errorf("lookup: read %s: %w", quote(l.File.Value), read.err))
			}
		}
	}
}
