package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrNoChanges: what changed since a checkpoint is not kept any more, or that checkpoint is none of its forebears.
var ErrNoChanges = errors.New("the changes since that checkpoint are not kept")

// changesFramesMax bounds what Changed reads side by side: a chunk of each frame is in memory.
const changesFramesMax = 512

// EntryOf is called for an entry, in rising order of (uid, table, key, sub). What it is given is not kept.
type EntryOf func(uid, table, key, sub, val []byte, deleted bool) error

// Changed gives the newest value, or the deletion, of every entry that was written between checkpoint since and m. The caller holds m (Hold), and has held the changes since then
// (KeepFrom); else it may be ErrNoChanges. So it is when a table is newer than since, or there are more frames than are read at once. since 0 gives every
// entry of m.
func Changed(ctx context.Context, s Store, m *Manifest, since uint64, f EntryOf) error {
	l, ok := s.(layered)
	if !ok {
		return fmt.Errorf("read changes: %w: the store cannot", ErrNoChanges)
	}
	whole, from := m, uint64(0)
	if since > 0 {
		var err error
		if whole, err = changesOf(ctx, s, m, since); err != nil {
			return fmt.Errorf("read changes from checkpoint %d to %d: %w", since, m.ID, err)
		}
		from = since
	}
	layers, err := l.open(whole)
	if err != nil {
		return fmt.Errorf("read changes from checkpoint %d to %d: %w", from, m.ID, err)
	}
	defer closeLayers(layers)
	keep := inManifest(m)
	var readers []*layerReader
	for _, l := range layers {
		readers = append(readers, &layerReader{layer: l, keep: keep})
	}
	return mergeLayers(ctx, readers, func(e *entry) error {
		if e.deleted && since == 0 {
			return nil
		}
		return f(e.uid, e.table, e.key, e.sub, e.val, e.deleted)
	})
}

// changesOf makes a manifest of the frames that m and its forebears down to since wrote. Each checkpoint names at least its own, whatever base it stands on.
func changesOf(ctx context.Context, s Store, m *Manifest, since uint64) (*Manifest, error) {
	for _, t := range m.Tables {
		if t.Since > since {
			return nil, fmt.Errorf("%w: table %s/%s is newer", ErrNoChanges, t.UID, t.Spec.Name)
		}
	}
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	live := map[uint64]*Manifest{}
	for _, l := range list.Manifests {
		live[l.ID] = l
	}
	out := &Manifest{ID: m.ID}
	for at := m; at.ID != since; {
		own := slices.DeleteFunc(slices.Clone(at.Frames), func(f FrameRef) bool { return f.Checkpoint != at.ID })
		if out.Frames = append(own, out.Frames...); len(out.Frames) > changesFramesMax {
			return nil, fmt.Errorf("%w: they are in more than %d frames", ErrNoChanges, changesFramesMax)
		}
		parent := at.Parent
		if parent == since {
			break
		}
		if at = live[parent]; parent < since || at == nil {
			return nil, fmt.Errorf("%w: checkpoint %d is gone, or another one was restored", ErrNoChanges, parent)
		}
	}
	return out, nil
}
