package pipeline

import "fmt"

// NewerError says that what lies on flash was written by a newer build: it is whole, and stays as it is. The build that wrote it reads it.
type NewerError struct {
	What          string // what was read: "checkpoint manifest"
	Format, Reads uint64 // the version found, the highest that this build reads
	Flags         uint64 // not 0: the version is known, and these flags are not
	is            error
}

// Newer makes a NewerError. is, if not nil, is what errors.Is finds in it: the version error of the package that reads.
func Newer(is error, what string, format, reads uint64) error {
	return &NewerError{What: what, Format: format, Reads: reads, is: is}
}

// Error begins in the same way whatever was read, so that people and scripts know it.
func (e *NewerError) Error() string {
	if e.Flags != 0 {
		return fmt.Sprintf("written by a newer weir (flags %#x, which this build does not know): %s", e.Flags, e.What)
	}
	return fmt.Sprintf("written by a newer weir (format %d, this build reads up to %d): %s", e.Format, e.Reads, e.What)
}

// NewerFlags makes a NewerError of flags that this build does not know.
func NewerFlags(is error, what string, flags uint64) error {
	return &NewerError{What: what, Flags: flags, is: is}
}

// Unwrap gives the version error of the package that reads.
func (e *NewerError) Unwrap() error { return e.is }
