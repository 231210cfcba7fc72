package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// Reader gives the durable entries from position from on. ErrTrimmed: from lies below First. A range that was damaged or left
// out is a block with one EntryGap at its first position.
func (j *Journal) Reader(from pipeline.Position) (pipeline.BlockReader, error) {
	r, err := j.log.Reader(uint64(from))
	if err != nil {
		return nil, failure(err)
	}
	return &reader{j: j, in: r}, nil
}

// EagerReader is a Reader that does not wait for the sync: it is for pipelines whose results may repeat (checkpoint.mode at-least-once). What it
// gave may be gone after a crash; no checkpoint may stand on it before Durable has reached it (RULES 8).
func (j *Journal) EagerReader(from pipeline.Position) (pipeline.BlockReader, error) {
	r, err := j.log.EagerReader(uint64(from))
	if err != nil {
		return nil, failure(err)
	}
	return &reader{j: j, in: r}, nil
}

// reader is for one goroutine.
type reader struct {
	j     *Journal
	in    *log.Reader
	names interner
	stamp pipeline.Stamp // of the block before
}

// Next implements pipeline.BlockReader. It allocates one slice per block.
func (r *reader) Next(ctx context.Context) (*pipeline.Block, error) {
	for {
		b, err := r.in.Next(ctx)
		if err != nil {
			return nil, failure(err)
		}
		if b.Lost && r.j.faults.gapHidden {
			continue
		}
		return r.block(b)
	}
}

func (r *reader) block(b *log.Block) (*pipeline.Block, error) {
	out := &pipeline.Block{First: pipeline.Position(b.First), Last: pipeline.Position(b.Last)}
	if b.Lost {
		if b.Stamp.Elapsed > r.stamp.Elapsed {
			r.stamp = b.Stamp
		}
		text := fmt.Appendf(nil, "journal records %d to %d are lost: damaged on flash or left out after a loss", b.First, b.Last)
		if b.LeftOut {
			text = fmt.Appendf(nil, "%s%d to %d: they are another journal's", leftOut, b.First, b.Last)
		}
		out.Entries = []pipeline.Entry{{Pos: out.First, Stamp: r.stamp, Kind: pipeline.EntryGap, Payload: text}}
		return out, nil
	}
	r.stamp = b.Stamp
	out.Entries = make([]pipeline.Entry, b.Count())
	i := 0
	for pos, rec := range b.Records() {
		e := &out.Entries[i]
		if err := decode(rec, e, &r.names); err != nil {
			return nil, fmt.Errorf("read journal at %d: %w", pos, err)
		}
		e.Pos, e.Stamp = pipeline.Position(pos), b.Stamp
		i++
	}
	return out, nil
}

// leftOut begins the payload of the gap entry of positions that SkipTo left out.
const leftOut = "left out on purpose are positions "

// LeftOut tells of an entry that it stands for positions that SkipTo left out: nothing is lost there.
func LeftOut(e *pipeline.Entry) bool {
	return e.Kind == pipeline.EntryGap && bytes.HasPrefix(e.Payload, []byte(leftOut))
}

// Close implements pipeline.BlockReader.
func (r *reader) Close() error { return r.in.Close() }

// ScanBack implements pipeline.Journal. Of a frame it decodes the entries of the kinds asked for only.
func (j *Journal) ScanBack(want func(pipeline.EntryKind) bool, f func(e *pipeline.Entry) (more bool, err error)) error {
	var names interner
	var found []pipeline.Entry
	return failure(j.log.ReadBack(func(b *log.Block) (bool, error) {
		found = found[:0]
		if b.Lost {
			return true, nil
		}
		for pos, rec := range b.Records() {
			if len(rec) > 0 && !want(pipeline.EntryKind(rec[0])) {
				continue
			}
			e := pipeline.Entry{Pos: pipeline.Position(pos), Stamp: b.Stamp}
			if err := decode(rec, &e, &names); err != nil {
				return false, fmt.Errorf("read journal at %d: %w", pos, err)
			}
			found = append(found, e)
		}
		for i := range found {
			if more, err := f(&found[len(found)-1-i]); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	}))
}

// Scan implements pipeline.Journal. It begins at First when from lies below: what was trimmed was carried. It ends with what was durable
// when it was called.
func (j *Journal) Scan(from pipeline.Position, f func(e *pipeline.Entry) error) error {
	end := j.Durable()
	var r pipeline.BlockReader
	for {
		from = max(from, j.First())
		if from > end {
			return nil
		}
		var err error
		if r, err = j.Reader(from); err == nil {
			break
		} else if !errors.Is(err, pipeline.ErrTrimmed) { // a Trim came between
			return err
		}
	}
	defer r.Close()
	for {
		b, err := r.Next(context.Background()) // does not wait: the entries are durable
		if err != nil {
			return err
		}
		for i := range b.Entries {
			if b.Entries[i].Pos > end {
				return nil
			}
			if err := f(&b.Entries[i]); err != nil {
				return err
			}
		}
		if b.Last >= end {
			return nil
		}
	}
}
