//go:build !nopebble

package pebblekv

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderly makes the name of a manifest durable before Pebble writes the marker that names it. Pebble syncs the directory once, behind both: where
// names become durable in any order, a crash in between leaves a marker without a manifest, and the store does not open.
type orderly struct {
	vfs.FS
	off bool // planted by a test
}

func (o orderly) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.Create(name, w)
	if err != nil || o.off || !strings.HasPrefix(o.PathBase(name), "MANIFEST") {
		return f, err
	}
	d, err := o.OpenDir(o.PathDir(name))
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (o orderly) Unwrap() vfs.FS { return o.FS }
