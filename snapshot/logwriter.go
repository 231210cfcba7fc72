package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// logWriter appends chunks to the log as they come. Those of an aborted checkpoint stay there, named by nothing, until they are trimmed.
type logWriter struct {
	s      *LogStore
	parent *Manifest
	id     uint64
	task   uint32
	tasks  uint32
	sort   sorter
	frames []FrameRef
	sum    frameSum
	first  uint64
	record []byte
	held   [][]byte // bugs.manifestFirst
	ended  bool
}

func (w *logWriter) Write(ctx context.Context, _ string, parts []pipeline.StatePart) error {
	w.task = w.tasks
	w.tasks++
	return w.sort.write(ctx, parts)
}

func (w *logWriter) chunk(index uint32, b *body) error {
	w.record = appendChunk(w.record[:0], chunkID{w.id, uint32(len(w.frames)), index}, b.buf)
	pos, err := w.append(w.record)
	if err != nil {
		return fmt.Errorf("append chunk: %w", err)
	}
	if index == 0 {
		w.first = pos
	}
	if pos != w.first+uint64(index) {
		return fmt.Errorf("append chunk %d: position %d behind %d: another writer", index, pos, w.first)
	}
	w.sum.add(w.record, b.entries)
	return nil
}

func (w *logWriter) append(rec []byte) (uint64, error) {
	if w.s.bugs.manifestFirst {
		w.held = append(w.held, slices.Clone(rec))
		return w.s.log.Last() + 1 + uint64(len(w.held)), nil
	}
	return w.s.log.Append(rec)
}

func (w *logWriter) endRun() error {
	w.frames = append(w.frames, FrameRef{
		Checkpoint: w.id, Task: w.task, First: w.first, Count: w.sum.count, Entries: w.sum.entries, Bytes: w.sum.bytes, CRC: w.sum.crc,
	})
	w.sum = frameSum{}
	return nil
}

// Commit implements Writer.
func (w *logWriter) Commit(ctx context.Context, m *Manifest) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit checkpoint %d: %w", m.ID, err)
	}
	chain(m, w.parent, w.frames)
	// One without changes is small, and it is what a pipeline begins with: on a full disk it starts all the same.
	pos, err := w.s.commitRecord(ctx, kindManifest, len(w.frames) == 0, AppendManifest(nil, m))
	if pos != 0 && err != nil && !errors.Is(err, ErrStoreFailed) {
		// It may become durable yet. That does no harm: it is a whole checkpoint of this very run, and the changes that it
		// holds are merged back and written again with the next one.
		w.s.wait(logged{pos, m})
	}
	if w.s.bugs.manifestFirst && err == nil {
		for _, rec := range w.held {
			_, err = w.s.log.Append(rec)
		}
		err = errors.Join(err, w.s.log.Sync(ctx))
	}
	if err != nil {
		return fmt.Errorf("commit checkpoint %d: %w", m.ID, err)
	}
	w.Abort()
	s := w.s
	s.mu.Lock()
	s.live[m.ID] = logged{pos, m}
	s.stats.BytesWritten += sumBytes(w.frames)
	if m.Oldest > s.oldest {
		s.dropBelow(m.Oldest)
	}
	first := !s.noted
	s.noted = true
	s.mu.Unlock()
	if first {
		s.note()
	}
	return nil
}

// Abort implements Writer.
func (w *logWriter) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	w.s.mu.Lock()
	w.s.writing = 0
	w.s.mu.Unlock()
}
