package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Digest names the config: a hash of the file's text and of the lookup files that it reads. Equal digests mean the same config.
func (c *Config) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s", len(c.Text), c.Text)
	files := c.LookupFiles()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\n%d\n%s", path, len(files[path]), files[path])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// LookupFiles gives the content of the lookup files, by path.
func (c *Config) LookupFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, p := range c.Pipelines {
		for _, s := range p.Steps {
			if l := s.Lookup; l != nil && l.Path != "" {
				files[l.Path] = l.Data
			}
		}
	}
	return files
}
