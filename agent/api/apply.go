package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
)

// ApplyOptions say which config to bring into force, and how.
type ApplyOptions struct {
	File              string `json:"file"`           // absolute; the name in messages, and where relative lookup files are from
	Text              []byte `json:"text,omitempty"` // of the file; nil: the agent reads it
	AllowDroppedState bool   `json:"allow_dropped_state,omitempty"`
	Again             bool   `json:"again,omitempty"`   // though it was gone back from
	DryRun            bool   `json:"dry_run,omitempty"` // only tell
}

// ApplyEvent is one thing that an apply tells of. The last one has Done.
type ApplyEvent struct {
	Pipeline string              `json:"pipeline,omitempty"`
	Change   string              `json:"change,omitempty"` // unchanged, changed, new, removed
	Steps    []savepoints.Line   `json:"steps,omitempty"`  // of a changed one: what becomes of their state
	Schema   []plan.ColumnChange `json:"schema,omitempty"` // and how the columns of its sources changed
	Doing    string              `json:"doing,omitempty"`  // a sentence
	Done     *ApplyOutcome       `json:"done,omitempty"`
}

// ApplyOutcome is how an apply ended.
type ApplyOutcome struct {
	// Result is unchanged, committed, gone back, refused, would lose state; of a dry run unchanged, changes, would lose state, refused.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// The results of an apply.
const (
	ApplyUnchanged  = "unchanged"
	ApplyCommitted  = "committed"
	ApplyGoneBack   = "gone back"
	ApplyRefused    = "refused"
	ApplyLosesState = "would lose state"
	ApplyChanges    = "changes"
)

// ApplyStatus is the last apply, or the one under way.
type ApplyStatus struct {
	Number  uint64   `json:"number"`
	State   string   `json:"state"` // saving, probation, committed, returning, restoring, rolled back
	Changes []string `json:"changes,omitempty"`
	Reason  string   `json:"reason,omitempty"` // why it was gone back from
}

// configMax bounds a config that is sent.
const configMax = 8 << 20

func (s *Server) applyRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/apply", func(w http.ResponseWriter, r *http.Request) {
		o, ok := bodyUpTo[ApplyOptions](w, r, configMax)
		if !ok {
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		flush, to := http.NewResponseController(w), json.NewEncoder(w)
		send := func(e ApplyEvent) error {
			if err := to.Encode(e); err != nil {
				return err
			}
			return flush.Flush()
		}
		if out := s.agent.Apply(r.Context(), o, send); out != nil {
			send(ApplyEvent{Done: out})
		}
	})
}

// Apply brings a config into force and calls told with what the agent does, but for the outcome.
func (c *Client) Apply(ctx context.Context, o ApplyOptions, told func(ApplyEvent) error) (*ApplyOutcome, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	answer, err := c.ask(ctx, http.MethodPost, "/v1/apply", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	lines := bufio.NewReader(answer)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case ended(err):
			return nil, errors.New("the agent ended within the apply; the next start goes on with it: see weir status")
		case err != nil:
			return nil, fmt.Errorf("read the agent's answer: %w", err)
		}
		var e ApplyEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the agent's answer: %w", err)
		}
		if e.Done != nil {
			return e.Done, nil
		}
		if err := told(e); err != nil {
			return nil, err
		}
	}
}
