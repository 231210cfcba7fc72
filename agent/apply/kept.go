package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weirstream/weir/agent/config"
)

// kept is a config with all that it reads.
type kept struct {
	File    string            `json:"file"`
	Text    []byte            `json:"text"`
	Lookups map[string][]byte `json:"lookups,omitempty"` // by path
}

const configPrefix = "config-"

// Keep writes a config down, under its digest. Durable on return; a repeat is harmless and writes nothing.
func (s Store) Keep(c *config.Config) error {
	name := configPrefix + c.Digest()
	var have kept
	if s.read(name, &have) == nil {
		return nil
	}
	if err := s.write(name, kept{File: c.File, Text: c.Text, Lookups: c.LookupFiles()}); err != nil {
		return fmt.Errorf("keep config %s: %w", c.File, err)
	}
	return nil
}

// Config reads a kept config. With frozen its lookups have the content that was kept; else that of today.
func (s Store) Config(digest string, frozen bool, files config.Files) (*config.Config, error) {
	var k kept
	if err := s.read(configPrefix+digest, &k); err != nil {
		return nil, fmt.Errorf("read the config that is in force: %w", err)
	}
	c, err := config.ParseWith(k.File, k.Text, func(path string) ([]byte, error) {
		if b, ok := k.Lookups[path]; ok && frozen {
			return b, nil
		}
		return files(path)
	})
	if err != nil {
		return nil, fmt.Errorf("the config that is in force: %w", err)
	}
	return c, nil
}

// Clean removes the kept configs that no digest of the record names. What cannot be removed now is the next time.
func (s Store) Clean(r *Record) error {
	names, err := s.FS.List(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", s.Dir, err)
	}
	for _, name := range names {
		digest, is := strings.CutPrefix(name, configPrefix)
		if is && digest != r.Old && digest != r.New {
			err = errors.Join(err, s.FS.Remove(s.Dir+"/"+name))
		}
	}
	return err
}
