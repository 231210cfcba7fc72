package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/deadletter"
	"github.com/weirstream/weir/uplink"
)

// deadFeed sends a pipeline's dead letters to the target of one of its sinks, in a stream of their own (dead_letters.sink).
type deadFeed struct {
	stream   uplink.Stream
	feed     *deadletter.Feed
	endpoint uplink.Endpoint
	sender   *uplink.Sender
}

// deadSuffix makes the name of the stream, and of a file sink's second file.
const deadSuffix = ".dead"

// feedGeneration: the numbers of dead letters go on whatever becomes of the pipeline's state.
const feedGeneration = 1

// openFeed makes the feed where the config asks for one. It connects to nothing yet.
func (a *attempt) openFeed() error {
	uid := a.spec.Dead.Sink.Value
	if uid == "" {
		return nil
	}
	sinks := a.spec.Sinks
	if a.spec.Whole != nil { // a region: the sink may be in another one
		sinks = a.spec.Whole.Sinks
	}
	for _, s := range sinks {
		if s.UID.Value != uid {
			continue
		}
		spec := *s
		if f := s.File; f != nil {
			own := *f
			own.File += deadSuffix
			spec.File = &own
		}
		return a.newFeed(&plan.Sink{UID: uid + deadSuffix, Spec: &spec})
	}
	return fmt.Errorf("BUG: no sink %q for dead letters", uid)
}

func (a *attempt) newFeed(s *plan.Sink) error {
	c := uplink.Default()
	if err := senderConfig(s.Spec, &c); err != nil {
		return err
	}
	e, err := a.endpoint(s)
	if err != nil {
		return err
	}
	inc := a.agent.incarnation()
	f := &deadFeed{feed: deadletter.NewFeed(a.dead, letterOf), endpoint: e, stream: uplink.Stream{Gateway: a.agent.gateway(), Pipeline: a.id.String(), Sink: s.UID}}
	f.sender, err = uplink.NewSender(uplink.SenderOptions{
		Config: c, Stream: f.stream, Generation: feedGeneration, Incarnation: uplink.Incarnation{Major: inc.Major, Minor: inc.Minor},
		Queue: f.feed, Endpoint: e, Logger: a.log,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }, // it is kept already
	})
	if err != nil {
		return errors.Join(err, e.Close())
	}
	a.feed = f
	return nil
}

// run sends until ctx ends; a fenced stream stops alone.
func (f *deadFeed) run(ctx context.Context) error {
	err := f.sender.Run(ctx)
	if errors.Is(err, uplink.ErrFenced) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *deadFeed) status() *api.DeadSinkStatus {
	m, st := f.sender.Metrics(), f.feed.Stats()
	s := &api.DeadSinkStatus{
		Stream: f.stream.String(), Kept: st.Kept, Before: st.Before, Delivered: st.Delivered, Pending: st.Pending, Dropped: st.Dropped, Rejected: st.Rejected,
		State: senderState(m), Error: m.LastError(),
	}
	return s
}

// senderState is the word for what a sender does.
func senderState(m *uplink.Metrics) string {
	switch {
	case m.Fenced.Load():
		return "fenced"
	case m.Held() != "":
		return "held"
	case m.LastError() != "":
		return "retrying"
	}
	return "ok"
}
