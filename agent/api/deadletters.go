package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// DeadLetter is one line of the answer to GET /v1/pipelines/{name}/deadletters.
type DeadLetter struct {
	Seq    uint64          `json:"seq"`
	KeptMs int64           `json:"kept_ms"` // Unix ms, as the clock said
	Letter json.RawMessage `json:"letter"`
}

// DeadQuery chooses dead letters; the zero value of a field chooses all.
type DeadQuery struct {
	After  uint64   `json:"after,omitempty"`
	UpTo   uint64   `json:"up_to,omitempty"`
	Limit  int      `json:"limit,omitempty"`
	Seqs   []uint64 `json:"seqs,omitempty"` // these alone
	Reason string   `json:"reason,omitempty"`
	Step   string   `json:"step,omitempty"`
	Since  int64    `json:"since_ms,omitempty"` // kept at or after, in Unix ms
	Until  int64    `json:"until_ms,omitempty"` // kept before
}

// RequeueQuery is the body of POST /v1/pipelines/{name}/deadletters/requeue.
type RequeueQuery struct {
	DeadQuery
	// Whole allows rows that a step refused: their whole message passes the pipeline again, also the steps that took it.
	Whole bool `json:"whole,omitempty"`
}

// RequeueAnswer tells of each letter that was asked for. More tells that the limit was reached.
type RequeueAnswer struct {
	Requeued []Requeued `json:"requeued"`
	Refused  []Refused  `json:"refused"`
	Last     uint64     `json:"last"` // the last letter that was looked at
	More     bool       `json:"more"`
}

// Requeued is a letter whose message is in the journal again.
type Requeued struct {
	Seq      uint64 `json:"seq"`
	Position uint64 `json:"position"`
}

// Refused is a letter that stays, and why.
type Refused struct {
	Seq uint64 `json:"seq"`
	Why string `json:"why"`
}

// DeadLettersMax bounds one answer.
const DeadLettersMax = 1000

// requeueBodyMax bounds a request: about so many sequence numbers of 8 digits.
const requeueBodyMax = 64 << 10

// deadLetters streams dead letters as JSON lines.
func (s *Server) deadLetters(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		badRequest(w, err)
		return
	}
	started := false
	err = s.agent.DeadLetters(r.PathValue("name"), q, func(l DeadLetter) error {
		if !started {
			w.Header().Set("Content-Type", "application/x-ndjson")
			started = true
		}
		return json.NewEncoder(w).Encode(l)
	})
	if err != nil && !started {
		answer(w, nil, err)
	} else if err != nil {
		panic(http.ErrAbortHandler) // what was written must not read as the whole answer
	}
}

func (s *Server) requeue(w http.ResponseWriter, r *http.Request) {
	var q RequeueQuery
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, requeueBodyMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		badRequest(w, fmt.Errorf("read request: %w", err))
		return
	}
	a, err := s.agent.Requeue(r.Context(), r.PathValue("name"), q)
	answer(w, a, err)
}

func badRequest(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// values and parseQuery are each other's inverse, but for Seqs, which only a requeue has.
func (q *DeadQuery) values() url.Values {
	v := url.Values{}
	for name, n := range map[string]uint64{"after": q.After, "up_to": q.UpTo, "limit": uint64(q.Limit), "since_ms": uint64(q.Since), "until_ms": uint64(q.Until)} {
		if n != 0 {
			v.Set(name, strconv.FormatUint(n, 10))
		}
	}
	for name, text := range map[string]string{"reason": q.Reason, "step": q.Step} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

func parseQuery(v url.Values) (q DeadQuery, err error) {
	number := func(name string, fallback uint64) uint64 {
		n, bad := number(v, name, fallback)
		err = errors.Join(err, bad)
		return n
	}
	q = DeadQuery{After: number("after", 0), UpTo: number("up_to", 0), Limit: int(min(number("limit", 100), DeadLettersMax)), Reason: v.Get("reason"), Step: v.Get("step"),
		Since: int64(number("since_ms", 0)), Until: int64(number("until_ms", 0))}
	return q, err
}

func number(v url.Values, name string, fallback uint64) (uint64, error) {
	text := v.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("parameter %s is %q; allowed is a whole number", name, text)
	}
	return n, nil
}

// DeadLetters calls f for the chosen dead letters of a pipeline, oldest first, at most DeadLettersMax.
func (c *Client) DeadLetters(ctx context.Context, pipeline string, q DeadQuery, f func(DeadLetter) error) error {
	body, err := c.open(ctx, http.MethodGet, "/v1/pipelines/"+url.PathEscape(pipeline)+"/deadletters?"+q.values().Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	for d := json.NewDecoder(body); ; {
		var l DeadLetter
		if err := d.Decode(&l); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		if err := f(l); err != nil {
			return err
		}
	}
}

// Requeue puts the messages of dead letters into the journal again. They are durable there, and no letters any more, on return.
func (c *Client) Requeue(ctx context.Context, pipeline string, q RequeueQuery) (a RequeueAnswer, err error) {
	b, err := json.Marshal(&q)
	if err != nil {
		return a, fmt.Errorf("encode request: %w", err)
	}
	path := "/v1/pipelines/" + url.PathEscape(pipeline) + "/deadletters/requeue"
	body, err := c.ask(ctx, http.MethodPost, path, bytes.NewReader(b))
	if err != nil {
		return a, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&a); err != nil {
		return a, fmt.Errorf("read answer of POST %s: %w", path, err)
	}
	return a, nil
}
