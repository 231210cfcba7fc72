package links

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// StreamOptions take over what a sink says of its queue.
func StreamOptions(s *plan.Sink) outbox.StreamOptions {
	o := outbox.StreamOptions{MaxBytes: s.Spec.MaxBytes, TTL: time.Duration(s.Spec.TTLNs)}
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

// senderConfig takes over what a sink says of its batches and its priority.
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
		c.Timeout = time.Duration(timeoutNs)
	}
}
