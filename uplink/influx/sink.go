// Package influx delivers a stream as points to the write API of InfluxDB 2 (and 1.8, 3, and others that speak line protocol).
//
// The server keeps no sequence: a point is its series (measurement and tags) and its nanosecond, and writing it again changes nothing. So a batch may come
// twice, cut differently, in part or from two senders at once. What it cannot tell apart are two results of one series and time: the later
// overwrites the earlier. There is no fence.
package influx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
)

// Sink implements uplink.Endpoint for one stream. It belongs to one sender goroutine; net/http's goroutines end with Close.
type Sink struct {
	config      Config
	http        *httpsink.Sink
	measurement []byte
	names       [][]byte         // of the columns, escaped
	byField     map[string][]int // field of the rows → columns
	values      [][]byte         // of the row at hand

	streamText, gatewayText []byte // as JSON
	durable                 uint64
	body                    []byte

	plant planted
}

// planted are faults that tests must find.
type planted struct {
	indistinct bool // the sequence is not in the time
	unescaped  bool // tags are written as they are
	optimistic bool // a refused batch counts as written
}

// New checks the configuration. It connects when something is sent.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	h := c.HTTP
	h.URL = strings.TrimSuffix(c.URL, "/") + "/api/v2/write?" + url.Values{"org": {c.Org}, "bucket": {c.Bucket}, "precision": {"ns"}}.Encode()
	h.Protocol, h.TokenScheme, h.Compression = httpsink.ProtocolPlain, "Token", "none"
	if c.Gzip {
		h.Compression = "gzip"
	}
	p, err := httpsink.New(h)
	if err != nil {
		return nil, err
	}
	s := &Sink{config: c, http: p, byField: map[string][]int{}, values: make([][]byte, len(c.Columns)), measurement: appendMeasurement(nil, c.Measurement)}
	for i, col := range c.Columns {
		s.names = append(s.names, appendKey(nil, col.Name, false))
		if !strings.HasPrefix(col.From, "$") {
			s.byField[col.From] = append(s.byField[col.From], i)
		}
	}
	return s, nil
}

// Guarantee is exactly once: a repeat is the same point.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

// Repeatable is true: the server keeps points, not runs.
func (s *Sink) Repeatable() bool { return true }

// Confirm gives the end of what was written.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.durable, nil }

// Close drops idle connections, unless another sink shares them.
func (s *Sink) Close() error { return s.http.Close() }

// Open asks nobody.
func (s *Sink) Open(_ context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.streamText, s.gatewayText = quoted(stream.String()), quoted(stream.Gateway)
	return uplink.Progress{Generation: generation, Incarnation: inc}, nil
}

func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text cannot be encoded: " + err.Error())
	}
	return b
}

// Send writes the batch's points. Results that cannot be points are named; the server names none of its own, and a batch that it refuses is split
// until that one is alone. Points that it took of a refused batch are written again with the half that they are in, which changes nothing.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	s.body = s.body[:0]
	var rejected []uplink.Rejected
	for i := range b.Results {
		r := &b.Results[i]
		if r.Kind != pipeline.ResultData {
			continue
		}
		start := len(s.body)
		var err error
		if s.body, err = s.appendLine(s.body, b, r); err != nil {
			s.body = s.body[:start]
			rejected = append(rejected, uplink.Rejected{Seq: r.Seq, Reason: err.Error()})
		}
	}
	if len(rejected) > 0 {
		return uplink.Answer{Durable: b.Previous, Rejected: rejected}, nil
	}
	if len(s.body) > 0 {
		if err := s.write(ctx); err != nil {
			return uplink.Answer{}, err
		}
	}
	s.durable = b.Last
	return uplink.Answer{Durable: b.Last}, nil
}

// errAnswer is an answer that is not the write API's.
var errAnswer = errors.New("the answer is not that of InfluxDB's write API")

func (s *Sink) write(ctx context.Context) error {
	status, header, body, err := s.http.Post(ctx, http.Header{}, s.body, "text/plain; charset=utf-8")
	if cap(s.body) > 4<<20 {
		s.body = nil
	}
	where := fmt.Sprintf("write to bucket %s at %s", s.config.Bucket, s.config.URL)
	switch {
	case err != nil:
		return err
	case status == http.StatusNoContent, s.plant.optimistic:
		return nil
	case status >= 200 && status < 300:
		return fmt.Errorf("%s: %w: %d %.200q", where, errAnswer, status, body)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s: %d %s: %.200q; the sink does not make the bucket: make it there", where, status, http.StatusText(status), body)
	case status == http.StatusConflict, status == http.StatusPreconditionFailed: // no fence and no hole here
		return fmt.Errorf("%s: %d %s: %.200q", where, status, http.StatusText(status), body)
	}
	return fmt.Errorf("%s: %w", where, httpsink.Refusal(status, body, header))
}
