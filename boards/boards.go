// Package boards knows the gateways that weir runs on: what hardware each has, where that knowledge comes from, and which settings suit it. The profiles are YAML
// files in data/; agent/config reads them, with the table that makes their schema.
//
// Everything here is a function of values but Read, which looks at a machine's /proc and /sys. Nothing is written.
package boards

import (
	"embed"
	"path"
	"strings"
)

//go:embed data/*.yaml
var data embed.FS

const (
	dataDir = "data"
	suffix  = ".yaml"
	// generic begins the names of the profiles for machines that no other one knows; the processor follows.
	generic = "generic-"
)

// IDs names the profiles, in alphabetical order.
func IDs() (ids []string) {
	entries, err := data.ReadDir(dataDir)
	if err != nil {
		panic("BUG: the profiles are not in the binary: " + err.Error())
	}
	for _, e := range entries {
		ids = append(ids, strings.TrimSuffix(e.Name(), suffix))
	}
	return ids
}

// Text is the file of a profile and its name; nil when there is none.
func Text(id string) (file string, text []byte) {
	file = id + suffix
	text, err := data.ReadFile(path.Join(dataDir, file))
	if err != nil {
		return file, nil
	}
	return file, text
}

// Generic tells whether a profile is one of those for machines that no other one knows: it sets nothing.
func Generic(id string) bool { return strings.HasPrefix(id, generic) }
