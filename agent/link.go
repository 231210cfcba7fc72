package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/filesink"
	"github.com/weirstream/weir/uplink/objectsink"
)

// link joins a stream of the outbox with its endpoint through a sender.
type link struct {
	uid, commit string
	stream      uplink.Stream
	queue       *outbox.Stream
	endpoint    uplink.Endpoint
	sender      *uplink.Sender
	way         string // name of its link, "" none
	bytesMax    int64
}

// run sends until ctx ends. A fenced stream stops for good: its results stay here, the pipeline's other sinks go on unless told says more.
func (l *link) run(ctx context.Context, told func(error)) error {
	err := l.sender.Run(ctx)
	if errors.Is(err, uplink.ErrFenced) {
		told(err)
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (l *link) close() error { return l.endpoint.Close() }

// openSink gives the engine the outbox stream of a sink, and makes the link that empties it.
func (a *attempt) openSink(uid string) (pipeline.ResultSink, error) {
	if uid == exec.DeadSink {
		return a.addLink(uid, nil, &deadEndpoint{store: a.dead})
	}
	for _, s := range a.graph.Sinks {
		if s.UID == uid {
			e, err := a.endpoint(s)
			if err != nil {
				return nil, err
			}
			q, err := a.addLink(uid, s, e)
			if err != nil {
				return nil, err
			}
			return plantedRubbish(a.held.holds(), q), nil
		}
	}
	return nil, fmt.Errorf("BUG: no sink %q", uid)
}

func (a *attempt) addLink(uid string, s *plan.Sink, e uplink.Endpoint) (*outbox.Stream, error) {
	commit := "checkpoint"
	so := outbox.StreamOptions{}
	c := uplink.Default()
	if s != nil {
		commit = s.Commit
		so = streamOptions(s)
		so.Inherited = a.inherited(uid)
		if err := senderConfig(s.Spec, &c); err != nil {
			return nil, err
		}
	}
	q, err := a.outbox.Stream(uid, so)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	inc := a.agent.incarnation()
	l := &link{uid: uid, commit: commit, queue: q, endpoint: e, bytesMax: so.MaxBytes,
		stream: a.streamOf(uid)}
	var way *uplink.Link
	if s != nil {
		l.way = s.Spec.Link.Value
		way = a.ways[l.way]
	}
	l.sender, err = uplink.NewSender(uplink.SenderOptions{
		Config: c, Stream: l.stream, Generation: a.generation, Incarnation: uplink.Incarnation{Major: inc.Major, Minor: inc.Minor},
		Queue: q, Endpoint: e, Link: way, DeadLetter: a.keepRejected, Logger: a.log,
	})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	a.links = append(a.links, l)
	return q, nil
}

func (a *attempt) streamOf(uid string) uplink.Stream {
	return uplink.Stream{Gateway: a.agent.gateway(), Pipeline: a.id.String(), Sink: uid}
}

func streamOptions(s *plan.Sink) outbox.StreamOptions {
	o := outbox.StreamOptions{MaxBytes: s.Spec.MaxBytes, TTL: durationNs(s.Spec.TTLNs)}
	switch s.Commit {
	case "immediate":
		o.Mode = outbox.ImmediateCommit
	case "at-least-once":
		o.Mode = outbox.AtLeastOnce
	}
	if s.Spec.OnLimit == "drop_oldest" {
		o.OnFull = outbox.DropOldest
	}
	return o
}

func senderConfig(s *plan.SinkSpec, c *uplink.Config) (err error) {
	if c.Priority, err = uplink.ParsePriority(s.Priority); err != nil {
		return err
	}
	if h := s.HTTP; h != nil {
		batchLimits(c, h.BatchRecords, h.BatchBytes, h.TimeoutNs)
	}
	if o := s.Objects; o != nil {
		batchLimits(c, o.BatchRecords, o.BatchBytes, o.TimeoutNs)
	}
	if n := s.NATS; n != nil {
		batchLimits(c, n.BatchRecords, n.BatchBytes, n.TimeoutNs)
	}
	if m := s.MQTT; m != nil {
		batchLimits(c, m.BatchRecords, m.BatchBytes, m.TimeoutNs)
	}
	if t := s.Influx; t != nil {
		batchLimits(c, t.BatchRecords, t.BatchBytes, t.TimeoutNs)
	}
	if p := s.Postgres; p != nil {
		batchLimits(c, p.BatchRecords, p.BatchBytes, p.TimeoutNs)
	}
	return nil
}

// batchLimits sets what is configured; 0: the default.
func batchLimits(c *uplink.Config, records int, bytes, timeoutNs int64) {
	if records > 0 {
		c.MaxResults = records
	}
	if bytes > 0 {
		c.MaxBytes = int(bytes)
	}
	if timeoutNs > 0 {
		c.Timeout = durationNs(timeoutNs)
	}
}

// endpoint makes the far end of a sink as configured. It connects to nothing yet.
func (a *attempt) endpoint(s *plan.Sink) (uplink.Endpoint, error) {
	switch {
	case s.Spec.HTTP != nil:
		return a.httpEndpoint(s.Spec.HTTP)
	case s.Spec.Postgres != nil:
		return a.postgresEndpoint(s)
	case s.Spec.File != nil:
		// Below security.file_root, which config has checked.
		if err := disk.OS.MkdirAll(filepath.Dir(s.Spec.File.File)); err != nil {
			return nil, fmt.Errorf("make directory of sink %s: %w", s.UID, err)
		}
		return filesink.New(filesink.Config{Path: s.Spec.File.File, MaxBytes: s.Spec.File.RotateBytes, Keep: s.Spec.File.Keep})
	case s.Spec.Objects != nil:
		return objectsink.New(a.objectsConfig(s))
	case s.Spec.NATS != nil:
		return a.natsEndpoint(s.Spec.NATS)
	case s.Spec.MQTT != nil:
		return a.mqttEndpoint(s.Spec.MQTT)
	case s.Spec.Influx != nil:
		return a.influxEndpoint(s)
	}
	return nil, fmt.Errorf("BUG: sink %s has no target", s.UID)
}

// ledger is the sink's line of the ledger.
func (l *link) ledger(mark pipeline.SinkMark) api.SinkLedger {
	m, st := l.sender.Metrics(), l.queue.Stats()
	s := api.SinkLedger{
		UID: l.uid, Stream: l.stream.String(), Commit: l.commit, Guarantee: string(l.endpoint.Guarantee()), Generation: mark.Generation,
		Emitted: max(mark.Seq+st.Shift, st.Last), Confirmed: st.Confirmed, Rejected: st.Rejected, Dropped: st.Dropped, Expired: st.Expired, Overflowed: st.Overflowed,
		Pending: st.Held, Bytes: st.WaitingBytes, BytesMax: l.bytesMax, DiskBytes: st.DiskBytes, Full: st.Blocked, Link: l.way, Held: m.Held(),
		Lost: st.Lost, Retries: m.Retried.Load(), State: senderState(m), Error: m.LastError(), Limits: m.Announced(),
	}
	return s
}
