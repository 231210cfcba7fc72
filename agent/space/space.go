// Package space is about the room on the disk of state_dir: what a config may take of it, what each part leaves free, and which pipelines a full journal stops waiting for. It decides and looks; the agent
// carries it out.
package space

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

// Space is what may be taken of the disk of state_dir, in bytes, when every sink is away for long and the journal is full.
type Space struct {
	Journal  int64 `json:"journal_bytes"`
	Outboxes int64 `json:"outboxes_bytes"` // max_bytes of all sinks, with what the logs need beside it
	Reserve  int64 `json:"reserve_bytes"`
	Disk     int64 `json:"disk_bytes"` // free now, and what state_dir has already; 0: not known
}

// Of adds up the limits of a config and asks the disk. It changes nothing.
func Of(cfg *config.Config) Space {
	o := outbox.Default()
	s := Space{Journal: cfg.Journal.MaxBytes, Reserve: cfg.Journal.ReserveBytes}
	for _, p := range cfg.Pipelines {
		for _, k := range p.Sinks {
			s.Outboxes += o.DiskBytes(k.MaxBytes)
		}
	}
	dir := cfg.StateDir.Value
	free, err := disk.OS.Free(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		free, err = disk.OS.Free(dir)
	}
	if err == nil {
		s.Disk = free + used(cfg.StateDir.Value)
	}
	return s
}

// used adds up the files below a directory; what cannot be read counts nothing.
func used(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // the sum is for a warning: a part of it is better than none
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// Warning says that the limits do not fit the disk, "" when they do or the disk is not known.
func (s Space) Warning() string {
	if s.Disk == 0 || s.Journal+s.Outboxes+s.Reserve <= s.Disk {
		return ""
	}
	return fmt.Sprintf("journal (%s), the outboxes of all sinks (%s) and the reserve (%s) may need more than the %s that the disk of state_dir has: sinks that are away for long could take it from the others; lower max_bytes",
		rounded(s.Journal), rounded(s.Outboxes), rounded(s.Reserve), rounded(s.Disk))
}

// rounded is a size in whole MiB.
func rounded(bytes int64) string { return config.FormatSize(bytes >> 20 << 20) }
