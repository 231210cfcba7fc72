package links

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/deadletter"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// DeadFeed sends a pipeline's dead letters to the target of one of its sinks, in a stream of their own (dead_letters.sink).
type DeadFeed struct {
	stream   uplink.Stream
	feed     *deadletter.Feed
	endpoint uplink.Endpoint
	sender   *uplink.Sender
}

// deadSuffix makes the name of the stream, and of a file sink's second file.
const deadSuffix = ".dead"

// feedGeneration: the numbers of dead letters go on whatever becomes of the pipeline's state.
const feedGeneration = 1

// DeadOptions are what a feed is made of.
type DeadOptions struct {
	Site              *Site
	Sink              *plan.SinkSpec // whose target it takes
	Gateway, Pipeline string         // of its stream
	Incarnation       outbox.Incarnation
	Store             *deadletter.Store
	Letter            func(*deadletter.Entry) ([]byte, error) // encodes an entry
	Logger            *slog.Logger
}

// NewDeadFeed makes the feed. It connects to nothing yet.
func NewDeadFeed(o DeadOptions) (*DeadFeed, error) {
	spec := *o.Sink
	if f := spec.File; f != nil {
		own := *f
		own.File += deadSuffix
		spec.File = &own
	}
	s := &plan.Sink{UID: spec.UID.Value + deadSuffix, Spec: &spec}
	c := uplink.Default()
	if err := senderConfig(s.Spec, &c); err != nil {
		return nil, err
	}
	e, err := o.Site.Endpoint(s)
	if err != nil {
		return nil, err
	}
	f := &DeadFeed{feed: deadletter.NewFeed(o.Store, o.Letter), endpoint: e, stream: uplink.Stream{Gateway: o.Gateway, Pipeline: o.Pipeline, Sink: s.UID}}
	f.sender, err = uplink.NewSender(uplink.SenderOptions{
		Config: c, Stream: f.stream, Generation: feedGeneration, Incarnation: uplink.Incarnation{Major: o.Incarnation.Major, Minor: o.Incarnation.Minor},
		Queue: f.feed, Endpoint: e, Logger: o.Logger,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }, // it is kept already
	})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return f, nil
}

// Run sends until ctx ends; a fenced stream stops alone.
func (f *DeadFeed) Run(ctx context.Context) error {
	err := f.sender.Run(ctx)
	if errors.Is(err, uplink.ErrFenced) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// Close closes the endpoint.
func (f *DeadFeed) Close() error { return f.endpoint.Close() }

// Deliverable counts the letters that wait for an upstream which is not known to be away.
func (f *DeadFeed) Deliverable() uint64 {
	if f.sender.Metrics().LastError() != "" {
		return 0
	}
	return f.feed.Stats().Pending
}

// Status is the feed's line of the status.
func (f *DeadFeed) Status() *api.DeadSinkStatus {
	m, st := f.sender.Metrics(), f.feed.Stats()
	return &api.DeadSinkStatus{
		Stream: f.stream.String(), Kept: st.Kept, Before: st.Before, Delivered: st.Delivered, Pending: st.Pending, Dropped: st.Dropped, Rejected: st.Rejected,
		State: senderState(m), Error: m.LastError(),
	}
}
