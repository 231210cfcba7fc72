package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// smallMost is what a document may have (fleet/FORMAT.md).
const smallMost = 1 << 20

// readSmall reads a file, or a pipe, that holds a document or what becomes part of one. What has no end is refused before memory has; what gives nothing is waited for until ctx ends.
func readSmall(ctx context.Context, path string) ([]byte, error) {
	return readUpTo(ctx, path, smallMost)
}

func readUpTo(ctx context.Context, path string, most int64) ([]byte, error) {
	f, err := openRead(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than the %d bytes that it may have", path, most)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// openRead opens a file, or a pipe that nobody may write to: then it waits until somebody does, or ctx ends.
func openRead(ctx context.Context, path string) (io.ReadCloser, error) {
	f, err := await(ctx, func() (*os.File, error) { return os.Open(path) })
	if errors.As(err, new(*fs.PathError)) { // it names the file
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode().IsRegular() {
		return f, err
	}
	return struct {
		io.Reader
		io.Closer
	}{heard(ctx, f), f}, nil
}

// await does what may wait without an end, a read of a terminal or of a pipe, and gives it up when ctx ends: who waits there hears no signal. What was given up goes on until this process ends, which is next.
func await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := do()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("ended while it waited: %w", ctx.Err())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// heardBytes is how much is read at once.
const heardBytes = 64 << 10

// heard reads from r until ctx ends.
func heard(ctx context.Context, r io.Reader) io.Reader {
	own := make([]byte, heardBytes) // of a read that was given up nobody takes anything
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var failed error
		n, err := await(ctx, func() (n int, err error) {
			n, failed = r.Read(own[:min(len(own), len(p))])
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		return copy(p, own[:n]), failed
	})
}
