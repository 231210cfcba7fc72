package receiver

import (
	"bufio"
	"compress/gzip"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// ServeHTTP answers the verbs of PROTOCOL.md, and GET ?stream=NAME where Export is set.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.stats.requests.Add(1)
	if !r.allowed(req) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		reply(w, http.StatusUnauthorized, &wire.Answer{Error: "a bearer token is needed"})
		return
	}
	switch {
	case req.Method == http.MethodGet && r.config.Export:
		r.export(w, req)
	case req.Method == http.MethodPost:
		r.post(w, req)
	default:
		reply(w, http.StatusMethodNotAllowed, &wire.Answer{Error: "POST is what this receiver takes"})
	}
}

func (r *Receiver) allowed(req *http.Request) bool {
	if r.config.Token == "" {
		return true
	}
	got, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(got), []byte(r.config.Token)) == 1
}

func (r *Receiver) post(w http.ResponseWriter, req *http.Request) {
	head, err := wire.ParseHeaders(req.Header)
	if err != nil {
		reply(w, http.StatusBadRequest, &wire.Answer{Error: err.Error()})
		return
	}
	q := &request{Request: head, done: make(chan struct{})}
	if head.Verb == wire.VerbSend {
		if q.body, err = r.body(req); err == nil {
			q.rejected, err = r.check(q)
		}
		if err != nil {
			reply(w, bodyStatus(err), &wire.Answer{Error: err.Error()})
			return
		}
		if len(q.rejected) > 0 {
			r.answer(w, q)
			return
		}
	}
	select {
	case r.queue <- q:
	case <-r.quit:
		q.err = ErrClosed
		r.answer(w, q)
		return
	case <-req.Context().Done():
		return
	}
	select {
	case <-q.done:
	case <-r.quit: // the committer may have ended before it saw the request
		r.ended.Wait()
		select {
		case <-q.done:
		default:
			q = &request{Request: head, err: ErrClosed}
		}
	}
	r.answer(w, q)
}

// body reads and unpacks a request's body within the limit.
func (r *Receiver) body(req *http.Request) ([]byte, error) {
	limit := r.config.MaxBodyBytes
	raw := io.LimitReader(req.Body, limit+1)
	switch enc := req.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrBody, err)
		}
		raw = io.LimitReader(z, limit+1)
	case "zstd":
		z, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrBody, err)
		}
		defer z.Close()
		raw = io.LimitReader(z, limit+1)
	default:
		return nil, fmt.Errorf("%w: encoding %.40q", wire.ErrBody, enc)
	}
	var b []byte
	var err error
	if n := req.ContentLength; n > 0 && n <= limit && req.Header.Get("Content-Encoding") == "" {
		b = make([]byte, n)
		_, err = io.ReadFull(raw, b)
	} else {
		b, err = io.ReadAll(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrBody, err)
	}
	if int64(len(b)) > limit || req.ContentLength > limit {
		return nil, errTooLarge
	}
	return b, nil
}

var errTooLarge = errors.New("body is too large")

func bodyStatus(err error) int {
	if errors.Is(err, errTooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// check reads all lines; rows that are no JSON are named when that is asked for.
func (r *Receiver) check(q *request) (bad []uplink.Rejected, err error) {
	err = wire.Lines(q.body, q.First, q.Last, func(l wire.Line) error {
		if l.Gap {
			q.lines.gaps += l.Last - l.Seq + 1
		} else {
			q.lines.records++
		}
		if r.config.CheckRows && !l.Gap && !json.Valid(l.Data) {
			bad = append(bad, uplink.Rejected{Seq: l.Seq, Reason: "row is not JSON"})
		}
		return nil
	})
	return bad, err
}

func (r *Receiver) answer(w http.ResponseWriter, q *request) {
	a := wire.ProgressAnswer(q.progress)
	switch {
	case q.err != nil:
		if !errors.Is(q.err, ErrClosed) {
			r.logger.Error("batch could not be stored", "stream", q.Stream.String(), "error", q.err)
		}
		w.Header().Set("Retry-After", "1")
		reply(w, http.StatusServiceUnavailable, &wire.Answer{Error: q.err.Error()})
	case len(q.rejected) > 0:
		r.stats.rejected.Add(uint64(len(q.rejected)))
		for _, n := range q.rejected {
			a.Rejected = append(a.Rejected, wire.Rejected{Seq: n.Seq, Reason: n.Reason})
		}
		a.Seq, a.Chain = 0, "" // nothing of the batch was taken
		reply(w, http.StatusUnprocessableEntity, &a)
	case q.verdict == fenced:
		r.stats.fenced.Add(1)
		a.Error = "fenced"
		reply(w, http.StatusConflict, &a)
	case q.verdict == hole:
		r.stats.holes.Add(1)
		a.Error = "hole"
		reply(w, http.StatusPreconditionFailed, &a)
	default:
		reply(w, http.StatusOK, &a)
	}
}

func reply(w http.ResponseWriter, status int, a *wire.Answer) {
	b, err := json.Marshal(a)
	if err != nil {
		panic("BUG: answer does not encode: " + err.Error())
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(status)
	_, _ = w.Write(b) // the sender is gone: it will ask again
}

// export writes the records of a stream as lines with their generation.
func (r *Receiver) export(w http.ResponseWriter, req *http.Request) {
	stream, err := wire.ParseStream(req.URL.Query().Get("stream"))
	if err != nil {
		reply(w, http.StatusBadRequest, &wire.Answer{Error: err.Error()})
		return
	}
	w.Header().Set("Content-Type", wire.ContentType)
	out := bufio.NewWriter(w)
	err = r.Records(stream, func(generation uint64, l wire.Line) error {
		_, err := fmt.Fprintf(out, `{"generation":%d,%s`+"\n", generation, l.Raw[1:])
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil { // the status is out: only breaking off tells the client
		r.logger.Warn("export ended early", "stream", stream.String(), "error", err)
		panic(http.ErrAbortHandler)
	}
}
