// Package record keeps small facts in state_dir: files of one JSON object each, that are replaced whole. A member of it says which version of its form it has, so that an earlier build leaves the file of
// a newer one alone, instead of calling it damaged, or reading what it knows of it and writing that back.
package record

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// Form is what a kind of file has to be.
type Form struct {
	What   string // it is, in errors
	Member string // holds its version; "": "format". A file without it has version 1.
	Reads  uint64 // the highest version that this build reads
	Newer  error  // errors.Is finds it in the error of a file that is newer; nil: none
}

// Decode reads a file's bytes. A newer one is a pipeline.NewerError, whatever else it holds.
func Decode(b []byte, f Form, v any) error {
	member := f.Member
	if member == "" {
		member = "format"
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) == nil { // what is no object, the last line tells
		version := uint64(1)
		if json.Unmarshal(members[member], &version) == nil && version > f.Reads {
			return pipeline.Newer(f.Newer, f.What, version, f.Reads)
		}
	}
	return json.Unmarshal(b, v)
}

// Read reads a file; without one v stays as it is.
func Read(fsys disk.FS, name string, f Form, v any) (there bool, err error) {
	b, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = Decode(b, f, v)
	}
	return true, err
}

// Write replaces a file. Durable on return; a repeat is harmless.
func Write(fsys disk.FS, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(fsys, name, append(b, '\n'))
}
