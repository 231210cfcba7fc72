package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// SavepointSuffix ends the name of every savepoint.
const SavepointSuffix = ".savepoint"

// SavepointDir is where savepoints are written that have no directory of their own.
func SavepointDir(cfg *config.Config) string {
	return filepath.Join(cfg.StateDir.Value, "savepoints")
}

// ReadSavepoint opens and verifies a savepoint file.
func ReadSavepoint(ctx context.Context, path string) (*savepoint.File, error) {
	return ReadSavepointTold(ctx, path, nil)
}

// ReadSavepointTold tells how many bytes are verified, of twice the size.
func ReadSavepointTold(ctx context.Context, path string, told func(n int64)) (*savepoint.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open savepoint: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		var s *savepoint.File
		if s, err = savepoint.Open(ctx, f, info.Size(), nil, told); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("savepoint %s: %w", path, err), f.Close())
}

// SavepointInfo tells of a savepoint in the API's terms.
func SavepointInfo(path string, h *savepoint.Head, s savepoint.Summary) api.SavepointInfo {
	return api.SavepointInfo{
		File: path, Pipeline: h.Pipeline, Gateway: h.Gateway, Version: h.Writer, Checkpoint: h.Checkpoint, Position: h.Position, Generation: h.Generation,
		Time: time.UnixMilli(h.CreatedMs), Trusted: h.Trusted, Bytes: s.Bytes, Entries: s.Entries, Results: s.Results, SHA256: fmt.Sprintf("%x", s.SHA256),
	}
}
