package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// SavepointOptions say where a savepoint goes.
type SavepointOptions struct {
	Pipeline string `json:"-"`
	Name     string `json:"name,omitempty"` // "": PIPELINE-TIME
	Dir      string `json:"dir,omitempty"`  // absolute; "": the agent's
	// Drain ends event time before a savepoint that the pipeline stops with: every window fires.
	Drain bool `json:"drain,omitempty"`
}

// SavepointInfo is one savepoint file.
type SavepointInfo struct {
	File       string    `json:"file"`
	Pipeline   string    `json:"pipeline"`
	Gateway    string    `json:"gateway"`
	Version    string    `json:"version"` // of the agent that wrote it
	Checkpoint uint64    `json:"checkpoint"`
	Position   uint64    `json:"position"`
	Generation uint64    `json:"generation"`
	Time       time.Time `json:"time"`
	Trusted    bool      `json:"trusted"` // that clock was known to be right
	Bytes      uint64    `json:"bytes"`
	Entries    uint64    `json:"entries"`
	Results    uint64    `json:"results"` // that upstream did not hold
	SHA256     string    `json:"sha256"`
}

// RestoreOptions order the restore of a savepoint.
type RestoreOptions struct {
	File              string `json:"file"`             // absolute
	SHA256            string `json:"sha256,omitempty"` // it must have, hex; "": any
	Claim             bool   `json:"claim,omitempty"`
	AcceptGap         bool   `json:"accept_gap,omitempty"`
	AllowDroppedState bool   `json:"allow_dropped_state,omitempty"`
	// Fresh: the pipeline is new, and its streams have nothing upstream, whatever the savepoint says that upstream holds of another's.
	Fresh  bool `json:"fresh,omitempty"`
	Cancel bool `json:"cancel,omitempty"` // instead: take back the order that could not be carried out
	// Takeover: state_dir was made for it (weir restore): all that its journal holds came behind the savepoint.
	Takeover bool `json:"takeover,omitempty"`
	// Behind is the highest position of all that is taken over: state holds positions, and what this journal gives out lies behind them.
	Behind uint64 `json:"behind,omitempty"`
	// Replay: the journal has the records behind the savepoint up to that position, as the device before had them.
	Replay uint64 `json:"replay,omitempty"`
}

// bodyMax bounds what a request may bring.
const bodyMax = 64 << 10

func body[T any](w http.ResponseWriter, r *http.Request) (v T, ok bool) {
	return bodyUpTo[T](w, r, bodyMax)
}

func bodyUpTo[T any](w http.ResponseWriter, r *http.Request, most int64) (v T, ok bool) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": fmt.Sprintf("request body: %v", err)})
		return v, false
	}
	return v, true
}

func (s *Server) savepointRoutes(m *http.ServeMux) {
	for path, do := range map[string]func(context.Context, string, SavepointOptions) ([]SavepointInfo, error){
		"savepoints": s.agent.CreateSavepoint, "stop-with-savepoint": s.agent.StopWithSavepoint,
	} {
		m.HandleFunc("POST /v1/pipelines/{name}/"+path, func(w http.ResponseWriter, r *http.Request) {
			o, ok := body[SavepointOptions](w, r)
			if !ok {
				return
			}
			o.Pipeline = r.PathValue("name")
			list, err := do(r.Context(), o.Pipeline, o)
			answer(w, list, err)
		})
	}
	m.HandleFunc("POST /v1/pipelines/{name}/restore", func(w http.ResponseWriter, r *http.Request) {
		o, ok := body[RestoreOptions](w, r)
		if !ok {
			return
		}
		err := s.agent.RestoreSavepoint(r.Context(), r.PathValue("name"), o)
		answer(w, map[string]string{"pipeline": r.PathValue("name"), "restored": o.File}, err)
	})
}

// CreateSavepoint makes a savepoint of a running pipeline; with stop, the pipeline stops behind it.
func (c *Client) CreateSavepoint(ctx context.Context, pipeline string, o SavepointOptions, stop bool) (list []SavepointInfo, err error) {
	path := "savepoints"
	if stop {
		path = "stop-with-savepoint"
	}
	return list, c.send(ctx, "/v1/pipelines/"+url.PathEscape(pipeline)+"/"+path, o, &list)
}

// RestoreSavepoint makes a savepoint the state of a pipeline.
func (c *Client) RestoreSavepoint(ctx context.Context, pipeline string, o RestoreOptions) error {
	return c.send(ctx, "/v1/pipelines/"+url.PathEscape(pipeline)+"/restore", o, nil)
}
