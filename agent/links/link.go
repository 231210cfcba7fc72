package links

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// Link joins a stream of the outbox with its endpoint through a sender.
type Link struct {
	UID    string // of the sink
	Queue  *outbox.Stream
	Sender *uplink.Sender

	commit   string
	stream   uplink.Stream
	endpoint uplink.Endpoint
	way      string // name of its metered link, "" none
	bytesMax int64
}

// Options are what a link is made of.
type Options struct {
	UID         string
	Sink        *plan.Sink // nil: the stream of dead letters
	Stream      uplink.Stream
	Queue       *outbox.Stream
	Endpoint    uplink.Endpoint
	Ways        map[string]*uplink.Link // by name, of the config
	Generation  uint64
	Incarnation outbox.Incarnation
	DeadLetter  func(context.Context, *uplink.DeadLetter) error // keeps what the upstream refuses for good
	Logger      *slog.Logger
}

// New makes a link. It sends nothing before it runs; Close closes the endpoint, and so does an error.
func New(o Options) (*Link, error) {
	l := &Link{UID: o.UID, commit: "checkpoint", Queue: o.Queue, endpoint: o.Endpoint, stream: o.Stream}
	c := uplink.Default()
	var way *uplink.Link
	if s := o.Sink; s != nil {
		l.commit, l.bytesMax, l.way = s.Commit, s.Spec.MaxBytes, s.Spec.Link.Value
		way = o.Ways[l.way]
		if err := senderConfig(s.Spec, &c); err != nil {
			return nil, errors.Join(err, o.Endpoint.Close())
		}
	}
	var err error
	l.Sender, err = uplink.NewSender(uplink.SenderOptions{
		Config: c, Stream: o.Stream, Generation: o.Generation, Incarnation: uplink.Incarnation{Major: o.Incarnation.Major, Minor: o.Incarnation.Minor},
		Queue: o.Queue, Endpoint: o.Endpoint, Link: way, DeadLetter: o.DeadLetter, Logger: o.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, o.Endpoint.Close())
	}
	return l, nil
}

// Run sends until ctx ends. A fenced stream stops for good: its results stay here, the pipeline's other sinks go on unless told says more.
func (l *Link) Run(ctx context.Context, told func(error)) error {
	err := l.Sender.Run(ctx)
	if errors.Is(err, uplink.ErrFenced) {
		told(err)
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// Close closes the endpoint.
func (l *Link) Close() error { return l.endpoint.Close() }

// Ledger is the sink's line of the ledger.
func (l *Link) Ledger(mark pipeline.SinkMark) api.SinkLedger {
	m, st := l.Sender.Metrics(), l.Queue.Stats()
	return api.SinkLedger{
		UID: l.UID, Stream: l.stream.String(), Commit: l.commit, Guarantee: string(l.endpoint.Guarantee()), Generation: mark.Generation,
		Emitted: max(mark.Seq+st.Shift, st.Last), Confirmed: st.Confirmed, Rejected: st.Rejected, Dropped: st.Dropped, Expired: st.Expired, Overflowed: st.Overflowed,
		Pending: st.Held, Bytes: st.WaitingBytes, BytesMax: l.bytesMax, DiskBytes: st.DiskBytes, Full: st.Blocked, Link: l.way, Held: m.Held(),
		Lost: st.Lost, Retries: m.Retried.Load(), State: senderState(m), Error: m.LastError(), Limits: m.Announced(),
	}
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
