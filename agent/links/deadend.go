package links

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/deadletter"
	"github.com/weirstream/weir/uplink"
)

// NewDeadEnd is the far end of the stream of dead letters: the store on this device. It deduplicates by sequence, so
// the stream is exactly once like any other.
func NewDeadEnd(store *deadletter.Store) uplink.Endpoint { return &deadEnd{store: store} }

type deadEnd struct {
	store *deadletter.Store
	last  uint64
}

// Open tells the end of the unbroken run that is kept.
func (d *deadEnd) Open(_ context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	d.last = d.store.LastSeq(s.String(), generation)
	return uplink.Progress{Generation: generation, Incarnation: inc, Seq: d.last}, nil
}

// Send keeps a batch, durably.
func (d *deadEnd) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	entries := make([]*deadletter.Entry, 0, len(b.Results))
	for i := range b.Results {
		r := &b.Results[i]
		e := &deadletter.Entry{
			Stream: b.Stream.String(), Generation: b.Generation, Seq: r.Seq, Last: r.Last, Gap: r.Kind == pipeline.ResultGap, Pos: r.Pos, Time: r.Time,
		}
		if e.Gap {
			e.Reason = string(r.Payload)
		} else {
			e.Payload = r.Payload
		}
		entries = append(entries, e)
	}
	if err := d.store.Append(ctx, entries...); err != nil {
		return uplink.Answer{}, fmt.Errorf("keep dead letters: %w", err)
	}
	d.last = b.Last
	return uplink.Answer{Durable: b.Last}, nil
}

func (d *deadEnd) Confirm(context.Context) (uint64, error) { return d.last, nil }
func (d *deadEnd) Guarantee() uplink.Guarantee             { return uplink.ExactlyOnce }
func (d *deadEnd) Close() error                            { return nil }
