package snapshot

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// layered is what a store must be able to do to be read: open the runs of a manifest.
type layered interface {
	// open gives base (if any) and frames of m in the order of time, each for one reading.
	open(m *Manifest) ([]layer, error)
}

// source is a pipeline.StateSource over base and frames.
type source struct {
	store layered
	m     *Manifest
}

func (s *source) Sinks() []pipeline.SinkMark  { return s.m.Sinks }
func (s *source) Position() pipeline.Position { return s.m.Position }

// Entries streams a table in key order. It holds one chunk per run.
func (s *source) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	t, ok := s.m.Table(uid, name)
	if !ok {
		return state.Spec{}, false, nil
	}
	ctx := context.Background() // StateSource has none; f ends the reading with an error
	layers, err := s.store.open(s.m)
	if err != nil {
		return t.Spec, true, fmt.Errorf("read table %s/%s: %w", uid, name, err)
	}
	defer closeLayers(layers)
	var readers []*layerReader
	for _, l := range layers {
		if l.checkpoint < t.Since {
			continue
		}
		r := &layerReader{layer: l, keep: ofTable(t)}
		if err := r.seek(ctx, uid, name); err != nil {
			return t.Spec, true, fmt.Errorf("read table %s/%s: %w", uid, name, err)
		}
		readers = append(readers, r)
	}
	err = mergeLayers(ctx, readers, func(e *entry) error {
		if e.deleted {
			return nil
		}
		return f(e.key, e.sub, e.val)
	})
	if err != nil {
		return t.Spec, true, fmt.Errorf("read table %s/%s: %w", uid, name, err)
	}
	return t.Spec, true, nil
}

// Every implements pipeline.WholeSource: each chunk is read once. It holds one chunk per run.
func (s *source) Every(table func(uid, name string, written state.Spec) (func(key, sub, val []byte) error, error)) error {
	loads := map[string]func(key, sub, val []byte) error{}
	for _, t := range s.m.Tables {
		load, err := table(t.UID, t.Spec.Name, t.Spec)
		if err != nil {
			return err
		}
		loads[t.UID+"\x00"+t.Spec.Name] = load
	}
	layers, err := s.store.open(s.m)
	if err != nil {
		return fmt.Errorf("read checkpoint %d: %w", s.m.ID, err)
	}
	defer closeLayers(layers)
	keep := inManifest(s.m)
	var readers []*layerReader
	for _, l := range layers {
		readers = append(readers, &layerReader{layer: l, keep: keep})
	}
	var name []byte
	err = mergeLayers(context.Background(), readers, func(e *entry) error {
		if e.deleted {
			return nil
		}
		name = append(append(append(name[:0], e.uid...), 0), e.table...)
		if load := loads[string(name)]; load != nil {
			return load(e.key, e.sub, e.val)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read checkpoint %d: %w", s.m.ID, err)
	}
	return nil
}

func closeLayers(layers []layer) {
	for _, l := range layers {
		l.close()
	}
}

// mergeAll gives every live entry of a checkpoint to add, in order, in passes of at most rebaseFramesMax layers. next is called
// between passes with what was added so far as a new oldest layer; it returns the function for the next pass.
func mergeAll(ctx context.Context, s layered, m *Manifest, begin func() (*merged, error)) (*merged, error) {
	layers, err := s.open(m)
	if err != nil {
		return nil, err
	}
	defer closeLayers(layers)
	var prev *merged
	for len(layers) > 0 || prev == nil {
		n := min(len(layers), rebaseFramesMax+1)
		var readers []*layerReader
		keep := inManifest(m)
		if prev != nil {
			// What was merged before is filtered already and older than all that follows.
			readers = append(readers, &layerReader{layer: layer{run: prev.run}, keep: func(uint64, *entry) verdict { return take }})
		}
		for _, l := range layers[:n] {
			readers = append(readers, &layerReader{layer: l, keep: keep})
		}
		out, err := begin()
		if err != nil {
			return nil, err
		}
		err = mergeLayers(ctx, readers, func(e *entry) error {
			if e.deleted {
				return nil // nothing older is left that it could hide
			}
			return out.add(e)
		})
		if prev != nil {
			prev.drop()
		}
		if err == nil {
			err = out.end()
		}
		if err != nil {
			out.drop()
			return nil, err
		}
		layers, prev = layers[n:], out
	}
	return prev, nil
}

// merged is the output of one merge pass: written with add, then end, then read through run.
type merged struct {
	add  func(*entry) error
	end  func() error
	drop func() // closes and removes it
	run  run
}

// frameSum computes what a FrameRef says about its chunks.
type frameSum struct {
	count   uint32
	entries uint64
	bytes   uint64
	crc     uint32
}

func (f *frameSum) add(record []byte, entries uint64) {
	f.count++
	f.entries += entries
	f.bytes += uint64(len(record))
	f.crc = crc32.Update(f.crc, castagnoli, record)
}

// check compares with what the manifest says; entries are not counted on reading.
func (f *frameSum) check(ref FrameRef) error {
	if f.count != ref.Count || f.bytes != ref.Bytes {
		return fmt.Errorf("frame of checkpoint %d: %d chunks, %d bytes, manifest says %d, %d: %w", ref.Checkpoint, f.count, f.bytes, ref.Count, ref.Bytes, ErrCorrupt)
	}
	if f.crc != ref.CRC {
		return fmt.Errorf("frame of checkpoint %d: %w", ref.Checkpoint, ErrChecksum)
	}
	return nil
}

// chain fills Base and Frames of a manifest from its parent and the frames just written.
func chain(m, parent *Manifest, written []FrameRef) {
	m.Frames = nil
	if parent != nil {
		if m.Base.Serial == 0 {
			m.Base = parent.Base
		}
		for _, f := range parent.Frames {
			if f.Checkpoint > m.Base.Checkpoint {
				m.Frames = append(m.Frames, f)
			}
		}
		m.Frames = retask(m, parent, m.Frames)
	}
	m.Frames = append(m.Frames, written...)
}

// retask maps the task numbers of a parent's frames to those of m. A task that is gone becomes task 0: the number only
// informs.
func retask(m, parent *Manifest, frames []FrameRef) []FrameRef {
	index := map[string]uint32{}
	for i, t := range m.Tasks {
		index[t] = uint32(i)
	}
	for i := range frames {
		frames[i].Task = index[parent.Tasks[frames[i].Task]]
	}
	return frames
}
