// Package bucket keeps objects under names: in S3, or in a directory. What it promises is what both can: an object is whole or absent
// under its name, a read sees the last write that was answered, and a write can be made to depend on what is there.
//
// A write is as durable when it returns as the store is; a directory is synced. A request whose error is none of those below may have
// been carried out, may never be, and may yet be: a repeat has to be harmless, or to depend on what is there.
// A Bucket may be used by several goroutines. It starts none and tries each request once.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrNotFound: no object has that name. It is fs.ErrNotExist.
	ErrNotFound = fs.ErrNotExist
	// ErrExists: the name is taken. What it holds is durable.
	ErrExists = errors.New("an object has that name")
	// ErrChanged: the object is not the version that was to be replaced.
	ErrChanged = errors.New("the object was changed by another writer")
	// ErrUnchanged: the object is the version that the reader has.
	ErrUnchanged = errors.New("the object has not changed")
	// ErrUnconditional: the endpoint ignores If-None-Match or If-Match. What relies on them must not be written there.
	ErrUnconditional = errors.New("the S3 endpoint ignores conditional puts")
	// ErrSkewed: the store refuses requests because this device's clock and its own differ. The error says by how much.
	ErrSkewed = errors.New("this device's clock differs from the store's")
	// ErrTooLarge: an object has more than BytesMax bytes: it is none that was written here.
	ErrTooLarge = errors.New("object too large")
)

// BytesMax is the size of the largest object that is read.
const BytesMax = 128 << 20

// PageMax is how many objects a List gives at most.
const PageMax = 1000

// Bucket is where objects lie. Names are slash-separated, without empty elements, and none begins with a dot.
type Bucket interface {
	// Prepare is called once before names below dir (with its slash) are written. In S3 it asks whether conditions are honoured, by objects
	// DIR_probe, else ErrUnconditional; what was answered is not asked again by this Bucket. In a directory it removes what killed writers left.
	Prepare(ctx context.Context, dir string) error
	// Get gives an object and its version; one of more than BytesMaxOf(ctx) bytes is ErrTooLarge. An object that Create found taken is durable when Get gives it.
	Get(ctx context.Context, name string) (body []byte, version string, err error)
	// GetNewer is Get for a reader that has a version: ErrUnchanged when the object is that one, without its body. "" is none.
	GetNewer(ctx context.Context, name, version string) (body []byte, newer string, err error)
	// Put puts an object whatever is there. It is for names that say what the object holds: a repeat is harmless.
	Put(ctx context.Context, name string, body []byte) error
	// Create puts an object under a name that is free, else ErrExists. A repeat of a Create that was carried out gives ErrExists.
	Create(ctx context.Context, name string, body []byte) error
	// Replace puts an object in the place of the one with that version, "" for none, else ErrChanged. It gives the new version.
	Replace(ctx context.Context, name, version string, body []byte) (string, error)
	// List gives up to PageMax objects whose names begin with prefix and rise above after, in rising order of bytes. None: the end.
	List(ctx context.Context, prefix, after string) ([]Object, error)
	// Delete removes objects. Those that are gone are no error.
	Delete(ctx context.Context, names ...string) error
	// Close drops idle connections.
	Close() error
}

// Object is what a list tells of one.
type Object struct {
	Name      string
	Bytes     int64
	WrittenMs int64 // Unix time by the store's clock; never to be compared with this device's
}

// Each calls f for all objects whose names begin with prefix, page by page, in rising order.
func Each(ctx context.Context, b Bucket, prefix string, f func(Object) error) error {
	for after := ""; ; {
		page, err := b.List(ctx, prefix, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, o := range page {
			if err := f(o); err != nil {
				return err
			}
		}
		last := page[len(page)-1].Name
		if last <= after { // it would never end
			return fmt.Errorf("list %s: the store lists %q behind %q", prefix, last, after)
		}
		after = last
	}
}
