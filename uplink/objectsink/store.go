package objectsink

import (
	"context"
	"errors"
)

// Errors of a store. A missing object is fs.ErrNotExist. Every other error leaves open whether the request was carried out.
var (
	errExists  = errors.New("an object has that name")
	errChanged = errors.New("the object was changed by another writer")
)

// store is where objects lie. Names are slash-separated.
type store interface {
	// prepare is called before a stream is used.
	prepare(ctx context.Context, dir string) error
	// create puts an object under a name that is free, else errExists. On both the object is durable.
	create(ctx context.Context, name string, body []byte) error
	// read gives an object and its version. One that was there when create said errExists is durable.
	read(ctx context.Context, name string) (body []byte, version string, err error)
	// replace puts an object in the place of the one with that version, "" for none, else errChanged. It gives the new version.
	replace(ctx context.Context, name, version string, body []byte) (string, error)
	// list gives the objects below dir, with names below it.
	list(ctx context.Context, dir string) ([]listed, error)
	close()
}

type listed struct {
	name string
	size int64
}
