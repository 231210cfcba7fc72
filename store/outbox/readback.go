package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// readback reads chunks that are no longer in memory. Only the sender's goroutine uses it, except invalid, which the
// stream's lock guards.
type readback struct {
	reader  *log.Reader
	block   *log.Block
	at      uint64 // log position of the chunk in decoded; 0 none
	decoded []pipeline.Result
	invalid bool // Cut or a renumbering came: decoded may carry old numbers
}

// results gives a chunk's results when it is the one that was loaded last, and nil otherwise.
func (r *readback) results(c *chunk) []pipeline.Result {
	if r.at == 0 || r.at != c.at || r.invalid {
		return nil
	}
	lo, hi := c.first-c.recorded, c.last-c.recorded+1
	if hi > uint64(len(r.decoded)) {
		return nil
	}
	part := r.decoded[lo:hi]
	if part[0].Seq != c.first {
		for i := range part {
			part[i].Seq, part[i].Last = c.first+uint64(i), c.first+uint64(i)
		}
	}
	return part
}

// load reads the chunk at a log position. Reading forward continues where the last load ended.
func (r *readback) load(ctx context.Context, l *log.Log, at uint64) error {
	if r.block == nil || at < r.block.First || r.reader == nil {
		if err := r.seek(l, at); err != nil {
			return err
		}
	}
	for r.block == nil || r.block.Last < at {
		b, err := r.reader.Next(ctx)
		if errors.Is(err, log.ErrTrimmed) && r.block != nil { // what lay between was confirmed meanwhile
			if err := r.seek(l, at); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			r.close()
			return fmt.Errorf("read outbox record %d: %w", at, err)
		}
		r.block = b
	}
	for pos, data := range r.block.Records() {
		if pos != at {
			continue
		}
		kind, body, err := recordKind(data)
		if err == nil && kind != kindChunk {
			err = corrupt(fmt.Sprintf("kind %d where results were written", kind))
		}
		if err != nil {
			return fmt.Errorf("read outbox record %d: %w", at, err)
		}
		h, err := decodeChunkHead(body)
		if err != nil {
			return fmt.Errorf("read outbox record %d: %w", at, err)
		}
		clear(r.decoded)
		if r.decoded, err = decodeChunk(r.decoded[:0], body, h.first); err != nil {
			r.at = 0
			return fmt.Errorf("read outbox record %d: %w", at, err)
		}
		r.at = at
		return nil
	}
	return fmt.Errorf("read outbox record %d: %w", at, corrupt("record is not in its block"))
}

func (r *readback) seek(l *log.Log, at uint64) (err error) {
	r.close()
	if r.reader, err = l.Reader(at); err != nil {
		return fmt.Errorf("read outbox record %d: %w", at, err)
	}
	return nil
}

func (r *readback) close() {
	if r.reader != nil {
		_ = r.reader.Close() // read only: nothing is lost
	}
	r.reader, r.block = nil, nil
}
