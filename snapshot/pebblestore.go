package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/weirstream/weir/store/pebblekv"
)

// OpenPebble opens or makes a LogStore whose records are in a Pebble directory instead of a recycled log; bases are files as there. o.Log is
// not used. It wraps pebblekv.ErrNotBuilt in a build without Pebble. A damaged directory is set aside file by file, durably, and the
// store opens empty with the damage in its Listing, so that Restore refuses.
func OpenPebble(ctx context.Context, o LogOptions) (*LogStore, error) {
	return openPebble(ctx, o, pebblekv.LogOptions{})
}

func openPebble(ctx context.Context, o LogOptions, kv pebblekv.LogOptions) (*LogStore, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	kv.FS, kv.Dir = o.FS, filepath.Join(o.Dir, "pebble")
	kv.Background = func(err error) {
		o.Logger.Warn("the checkpoint store cannot be read, it is tried again", "error", err)
	}
	l, err := pebblekv.OpenLog(kv)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	s, err := newLogStore(ctx, o, pebbleLog{l}, chunkBytes)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for _, name := range l.Aside() {
		s.damage = append(s.damage, "damaged file set aside as "+filepath.Join(kv.Dir, name))
		if len(s.damage) >= damageLinesMax {
			break
		}
	}
	return s, nil
}

// pebbleLog is a pebblekv.Log as LogStore sees it.
type pebbleLog struct{ *pebblekv.Log }

func (l pebbleLog) bytes() uint64 { return l.Bytes() }

func (l pebbleLog) Append(parts ...[]byte) (uint64, error) {
	pos, err := l.Log.Append(parts...)
	return pos, l.named(err)
}

// AppendReserved implements recordLog: what Pebble leaves free is for itself alone.
func (l pebbleLog) AppendReserved(parts ...[]byte) (uint64, error) { return l.Append(parts...) }

func (l pebbleLog) Sync(ctx context.Context) error { return l.named(l.Log.Sync(ctx)) }

func (l pebbleLog) Trim(before uint64) error { return l.named(l.Log.Trim(before)) }

func (l pebbleLog) scan(ctx context.Context, from uint64, f func(pos uint64, rec []byte) (bool, error)) error {
	err := l.Scan(ctx, from, f)
	var missing *pebblekv.MissingError
	switch {
	case errors.As(err, &missing):
		return &lostRange{missing.First, missing.Last}
	case errors.Is(err, pebblekv.ErrDamaged):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// named gives the log's errors their name in this package.
func (pebbleLog) named(err error) error {
	if errors.Is(err, pebblekv.ErrFailed) || errors.Is(err, pebblekv.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrStoreFailed, err)
	}
	return err
}
