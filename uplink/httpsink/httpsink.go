// Package httpsink delivers a stream over HTTP: to a receiver that speaks weir's protocol (../PROTOCOL.md, exactly once), or
// as plain requests with an Idempotency-Key to any endpoint (at least once, unless the endpoint honours the key).
//
// It keeps nothing on flash. A Sink belongs to one sender goroutine.
package httpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/credentials"
	"github.com/weirstream/weir/uplink/wire"
)

// compressMin is the body size under which compression costs more than it saves.
const compressMin = 1 << 10

// Sink implements uplink.Endpoint, uplink.KeyOnly and uplink.Limits.
type Sink struct {
	config  Config
	url     *url.URL
	client  *http.Client
	release func() // gives the transport back
	token   string
	zstd    *zstd.Encoder
	gzip    *gzip.Writer

	stream     uplink.Stream
	inc        uplink.Incarnation
	generation uint64
	durable    uint64
	body       []byte
	packed     []byte
}

// New checks the configuration. It connects when the first request is made.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("parse http sink url: %w", err)
	}
	shared := c.Transports
	if shared == nil {
		shared = &Transports{}
	}
	transport, release, err := shared.take(&c)
	if err != nil {
		return nil, fmt.Errorf("http sink %s: %w", c.URL, err)
	}
	s := &Sink{config: c, url: u, release: release}
	s.client = &http.Client{
		Transport: transport,
		// A redirect would send the batch to another receiver than the configured one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if err := s.compressor(); err != nil {
		release()
		return nil, err
	}
	return s, nil
}

// compressor makes what Compression asks for.
func (s *Sink) compressor() (err error) {
	switch s.config.Compression {
	case "zstd":
		s.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(128<<10))
		if err != nil {
			return fmt.Errorf("make zstd encoder: %w", err)
		}
	case "gzip":
		s.gzip, err = gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			return fmt.Errorf("make gzip encoder: %w", err)
		}
	}
	return nil
}

// Guarantee is exactly-once where the other side speaks weir's protocol.
func (s *Sink) Guarantee() uplink.Guarantee {
	if s.config.Protocol == ProtocolPlain {
		return uplink.AtLeastOnce
	}
	return uplink.ExactlyOnce
}

// KeyOnly is true for plain endpoints.
func (s *Sink) KeyOnly() bool { return s.config.Protocol == ProtocolPlain }

// MaxRecordBytes is the configured limit.
func (s *Sink) MaxRecordBytes() int { return s.config.MaxRecordBytes }

// Close drops idle connections, unless another sink shares them.
func (s *Sink) Close() error {
	s.release()
	return nil
}

// Open fences lower incarnations and learns what the receiver holds. A plain endpoint is not asked.
func (s *Sink) Open(ctx context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.stream, s.inc, s.generation, s.durable = stream, inc, generation, 0
	if s.KeyOnly() {
		return uplink.Progress{Generation: generation, Incarnation: inc}, nil
	}
	ans, err := s.ask(ctx, wire.VerbOpen)
	if err != nil {
		return uplink.Progress{}, err
	}
	p, err := ans.Progress()
	if err == nil && p.Generation == generation {
		s.durable = p.Seq
	}
	return p, err
}

// Confirm asks the receiver again.
func (s *Sink) Confirm(ctx context.Context) (uint64, error) {
	if s.KeyOnly() {
		return s.durable, nil
	}
	ans, err := s.ask(ctx, wire.VerbConfirm)
	if err != nil {
		return 0, err
	}
	s.durable = 0
	if ans.Generation == s.generation {
		s.durable = ans.Seq
	}
	return s.durable, nil
}

func (s *Sink) ask(ctx context.Context, verb string) (wire.Answer, error) {
	h := http.Header{}
	wire.SetHeaders(h, &wire.Request{Verb: verb, Stream: s.stream, Generation: s.generation, Incarnation: s.inc, Board: s.config.Board})
	status, _, body, err := s.Post(ctx, h, nil, "")
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := s.read(status, body)
	return a, s.said(err)
}

// read turns a status and a body that do not concern a batch into an answer or an error.
func (s *Sink) read(status int, body []byte) (wire.Answer, error) {
	if status == http.StatusOK {
		return parse(body)
	}
	return wire.Answer{}, protocolRefusal(status, body, nil)
}

// Send posts one batch.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	h := http.Header{wire.HeaderKey: {b.IdempotencyKey()}}
	contentType := wire.ContentType
	if s.KeyOnly() {
		s.body, contentType = appendPlain(s.body[:0], b, s.config.Format)
	} else {
		wire.SetHeaders(h, &wire.Request{Verb: wire.VerbSend, Stream: b.Stream, Generation: b.Generation, Incarnation: b.Incarnation,
			Board: s.config.Board, Previous: b.Previous, First: b.First, Last: b.Last, Chain: b.Chain()})
		s.body = s.body[:0]
		for i := range b.Results {
			s.body = wire.AppendResult(s.body, &b.Results[i])
		}
	}
	status, header, body, err := s.Post(ctx, h, s.body, contentType)
	if cap(s.body) > 4<<20 {
		s.body = nil
	}
	if err != nil {
		return uplink.Answer{}, err
	}
	if s.KeyOnly() {
		ans, err := plainAnswer(b, status, header, body)
		s.durable = max(s.durable, ans.Durable)
		return ans, s.said(err)
	}
	ans, err := answer(status, header, body)
	s.durable = max(s.durable, ans.Durable)
	return ans, s.said(err)
}

// appendPlain encodes the data of a batch as a foreign endpoint wants it.
func appendPlain(dst []byte, b *uplink.Batch, format string) ([]byte, string) {
	if format == "ndjson" {
		for i := range b.Results {
			if b.Results[i].Kind == pipeline.ResultData {
				dst = append(wire.AppendRow(dst, b.Results[i].Payload), '\n')
			}
		}
		return dst, wire.ContentType
	}
	sep := byte('[')
	for i := range b.Results {
		if b.Results[i].Kind == pipeline.ResultData {
			dst = append(append(dst, sep), b.Results[i].Payload...)
			sep = ','
		}
	}
	return append(dst, ']'), "application/json"
}

// Post makes one request and reads its answer. The body is compressed when that is configured and worth it. For sinks that speak
// another protocol over HTTP.
func (s *Sink) Post(ctx context.Context, h http.Header, body []byte, contentType string) (int, http.Header, []byte, error) {
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	for k, v := range s.config.Headers {
		h.Set(k, v)
	}
	if err := s.authorize(h); err != nil {
		return 0, nil, nil, err
	}
	body, err := s.compress(h, body)
	if err != nil {
		return 0, nil, nil, err
	}
	// GetBody lets the transport repeat the request on a fresh connection when an idle one was closed under it; the
	// receiver deduplicates.
	req := &http.Request{Method: http.MethodPost, URL: s.url, Header: h, ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Host: s.url.Host, Body: http.NoBody}
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("post to %s: %w%s", s.url.Redacted(), bare(err), remedy(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, s.config.MaxAnswerBytes))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read answer of %s: %w", s.url.Redacted(), err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		s.token = "" // read the file again: it may have been renewed
	}
	return resp.StatusCode, resp.Header, text, nil
}

func (s *Sink) authorize(h http.Header) error {
	if s.config.TokenFile == "" {
		return nil
	}
	if s.token == "" {
		token, err := credentials.Secret(s.config.TokenFile)
		if err != nil {
			return err
		}
		s.token = token
	}
	h["Authorization"] = []string{s.config.TokenScheme + " " + s.token}
	return nil
}

func (s *Sink) compress(h http.Header, body []byte) ([]byte, error) {
	if len(body) < compressMin {
		return body, nil
	}
	switch {
	case s.zstd != nil:
		s.packed = s.zstd.EncodeAll(body, s.packed[:0])
		h["Content-Encoding"] = []string{"zstd"}
		return s.packed, nil
	case s.gzip != nil:
		buf := bytes.NewBuffer(s.packed[:0])
		s.gzip.Reset(buf)
		if _, err := s.gzip.Write(body); err != nil {
			return nil, fmt.Errorf("compress batch: %w", err)
		}
		if err := s.gzip.Close(); err != nil {
			return nil, fmt.Errorf("compress batch: %w", err)
		}
		s.packed = buf.Bytes()
		h["Content-Encoding"] = []string{"gzip"}
		return s.packed, nil
	}
	return body, nil
}

// answer reads what a weir receiver says to a batch.
func answer(status int, header http.Header, body []byte) (uplink.Answer, error) {
	switch status {
	case http.StatusOK:
		a, err := parse(body)
		if err != nil {
			return uplink.Answer{}, err
		}
		return uplink.Answer{Durable: a.Seq}, nil
	case http.StatusUnprocessableEntity:
		a, err := wire.ParseAnswer(body)
		if err != nil || len(a.Rejected) == 0 {
			return uplink.Answer{}, protocolRefusal(status, body, header)
		}
		return uplink.Answer{Durable: a.Seq, Rejected: a.Names()}, nil
	}
	return uplink.Answer{}, protocolRefusal(status, body, header)
}

// protocolRefusal is Refusal for a receiver. What a proxy or a firewall on the way answers in its place neither fences the stream for good nor makes
// dead letters: a status that has such weight counts only with a body that a receiver writes.
func protocolRefusal(status int, body []byte, header http.Header) error {
	switch status {
	case http.StatusConflict, http.StatusPreconditionFailed:
		a, err := parse(body)
		if err != nil {
			return fmt.Errorf("%w: %d %s: %w", errStatus, status, http.StatusText(status), err)
		}
		if p, err := a.Progress(); status == http.StatusConflict && err == nil {
			return &uplink.Fenced{Where: "the receiver", Generation: p.Generation, Incarnation: p.Incarnation}
		} else if status == http.StatusConflict {
			return fmt.Errorf("%w: %.200q", uplink.ErrFenced, body)
		}
		return fmt.Errorf("%w: %.200q", uplink.ErrHole, body)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if a, err := wire.ParseAnswer(body); err != nil || a.Error == "" && len(a.Rejected) == 0 {
			return fmt.Errorf("%w: %d %s: %w: %.200q", errStatus, status, http.StatusText(status), errNoReceiver, body)
		}
	}
	return Refusal(status, body, header)
}

// plainAnswer reads what a foreign endpoint says. It may name bad records in a 422 or 400 (plainNames). It knows nothing of
// fences and runs: its 409 and 412 are temporary.
func plainAnswer(b *uplink.Batch, status int, header http.Header, body []byte) (uplink.Answer, error) {
	if status >= 200 && status < 300 {
		return uplink.Answer{Durable: b.Last}, nil
	}
	if status == http.StatusUnprocessableEntity || status == http.StatusBadRequest {
		if named := plainNames(b, body); len(named) > 0 {
			return uplink.Answer{Durable: b.Previous, Rejected: named}, nil
		}
	}
	return uplink.Answer{}, Refusal(status, body, header)
}

// errStatus is an answer that is neither yes nor a refusal that weir knows.
var errStatus = errors.New("unexpected answer")

// Refusal classifies a status that is no success. Only a status that says the content is at fault is final for a batch; everything else
// may pass: a wrong URL or a missing right can be repaired at the other end, and nothing may be lost meanwhile.
func Refusal(status int, body []byte, header http.Header) error {
	what := fmt.Errorf("%w: %d %s: %.200q%s", errStatus, status, http.StatusText(status), body, advice(status))
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", uplink.ErrRejected, what)
	case http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", uplink.ErrTooLarge, what)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &uplink.RetryAfter{Wait: retryAfter(header.Get("Retry-After")), Err: what}
	}
	return what
}

// retryAfterMax bounds what an endpoint can make a sender wait for.
const retryAfterMax = time.Hour

// retryAfter reads seconds; a date, which needs a trusted clock, counts as no wish.
func retryAfter(v string) time.Duration {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, retryAfterMax)
}
