package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
)

// Directory is a Legacy of savepoint files in a directory.
type Directory string

// Look reads the files.
func (d Directory) Look(ctx context.Context, gateway string) error {
	_, err := d.newest(ctx, gateway)
	return err
}

// Leave copies the newest savepoint of each of the gateway's pipelines. A file that is not whole is passed over when there is an older one.
func (d Directory) Leave(ctx context.Context, gateway, into string) (list []Left, err error) {
	newest, err := d.newest(ctx, gateway)
	if err != nil {
		return nil, err
	}
	for pipeline, name := range newest {
		to := filepath.Join(into, "restored-"+strings.TrimPrefix(filepath.Base(name), "restored-"))
		if err := copyFile(name, to); err != nil {
			return nil, fmt.Errorf("copy savepoint %s: %w", name, err)
		}
		list = append(list, Left{Pipeline: pipeline, File: to})
	}
	slices.SortFunc(list, func(a, b Left) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return list, nil
}

// newest gives the file of each pipeline; an error when there is none at all.
func (d Directory) newest(ctx context.Context, gateway string) (files map[string]string, err error) {
	names, err := filepath.Glob(filepath.Join(string(d), "*"+restore.SavepointSuffix))
	if err != nil {
		return nil, err
	}
	files = map[string]string{}
	heads := map[string]*savepoint.Head{}
	var bad []error
	for _, name := range names {
		f, err := restore.ReadSavepoint(ctx, name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		h := &f.Head
		if err := f.Close(); err != nil {
			return nil, err
		}
		if n := heads[h.Pipeline]; h.Gateway == gateway && (n == nil || newer(h, n)) {
			heads[h.Pipeline], files[h.Pipeline] = h, name
		}
	}
	if len(files) == 0 {
		return nil, errors.Join(append(bad, fmt.Errorf("%w: no savepoint of gateway %s in %s", fs.ErrNotExist, gateway, d))...)
	}
	return files, nil
}

func newer(a, b *savepoint.Head) bool {
	x, y := uplink.Incarnation{Major: uint32(a.Major), Minor: uint32(a.Minor)}, uplink.Incarnation{Major: uint32(b.Major), Minor: uint32(b.Minor)}
	if x != y {
		return y.Less(x)
	}
	return a.Checkpoint > b.Checkpoint
}

// copyFile makes a file that is whole or absent, durably. A repeat is harmless.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to + ".tmp")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(to+".tmp", to); err != nil {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(to))
}
