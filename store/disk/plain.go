package disk

import (
	"fmt"
	"io"
	"os"
)

// OpenPlain opens a file for reading, which may belong to somebody else: an operator, another program, who has put it there. It follows links, and never waits: what is no regular file is ErrNoFile.
func OpenPlain(name string) (*os.File, error) {
	f, _, err := openPlain(name, os.O_RDONLY)
	return f, err
}

// ReadPlain reads a file that OpenPlain opens, whole; one of more than bytesMost bytes is an error, and is not read.
func ReadPlain(name string, bytesMost int64) ([]byte, error) {
	f, err := OpenPlain(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, bytesMost+1)) // it may grow meanwhile
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > bytesMost:
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, bytesMost)
	}
	return b, nil
}
