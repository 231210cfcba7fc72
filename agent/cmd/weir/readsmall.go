package main

import (
	"fmt"
	"io"
	"os"
)

// smallMost is what a document may have (fleet/FORMAT.md).
const smallMost = 1 << 20

// readSmall reads a file, or a pipe, that holds a document or what becomes part of one. What has no end is refused before memory has.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, smallMost+1))
	if err == nil && len(b) > smallMost {
		err = fmt.Errorf("%s has more than the %d bytes that a document may have", path, smallMost)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
