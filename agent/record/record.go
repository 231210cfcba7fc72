// Package record keeps small facts in state_dir: files of one JSON object each, that are replaced whole. A member of it says which version of its form it has, so that an earlier build leaves the file of
// a newer one alone, instead of calling it damaged, or reading what it knows of it and writing that back. The first member is the file's checksum: a digit that flash has changed is still JSON.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
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

// sumMember is CRC-32C of the file, with zeros in its place, in each version. A file without it was written by an earlier weir, or by hand.
const sumMember = "sum"

// Decode reads a file's bytes. One that flash has changed is an error (disk.ErrSum); a newer one is a pipeline.NewerError, whatever else it holds.
func Decode(b []byte, f Form, v any) error {
	member := f.Member
	if member == "" {
		member = "format"
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) == nil { // what is no object, the last line tells
		sum, version := "", uint64(1)
		if json.Unmarshal(members[sumMember], &sum) == nil {
			if err := disk.CheckSum(b, sum); err != nil {
				return fmt.Errorf("it is damaged: %w", err)
			}
		}
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

// Write replaces a file. Durable on return; a repeat is harmless. v is an object that has no member sum.
func Write(fsys disk.FS, name string, v any) error {
	b, err := Encode(v)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(fsys, name, b)
}

// Encode gives the bytes of a file. The checksum is in front: what else has its digits comes later.
func Encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	rest := b[1:] // behind the brace
	if len(rest) > 1 {
		rest = append([]byte{','}, rest...)
	} else {
		rest = []byte("\n}")
	}
	return disk.Summed(fmt.Appendf(nil, "{\n  %q: %q%s\n", sumMember, disk.SumZero, rest)), nil
}
