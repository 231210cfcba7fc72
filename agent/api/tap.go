package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// TapOptions say what a tap shows.
type TapOptions struct {
	// Steps are names of steps, STEP.PORT, or sources that the pipeline reads.
	Steps []string
	// Sources adds all sources of the pipeline.
	Sources bool
	// Count of rows after which it ends; 0: none.
	Count uint64
}

// tap streams what passes steps as JSON lines: ?step=STEP (several times), ?sources=true, ?count=N.
func (s *Server) tap(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	count, err := number(r.URL.Query(), "count", 0)
	if err == nil && len(q["step"]) == 0 && q.Get("sources") == "" {
		err = errors.New("parameter step is missing")
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	started := false
	flush := http.NewResponseController(w)
	err = s.agent.TapPipeline(r.Context(), r.PathValue("name"), TapOptions{Steps: q["step"], Sources: q.Get("sources") == "true", Count: count}, func(b []byte, more bool) error {
		if !started {
			w.Header().Set("Content-Type", "application/x-ndjson")
			started = true
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
		if more {
			return nil
		}
		return flush.Flush()
	})
	if err != nil && !started {
		answer(w, nil, err)
	}
}

// Tap calls f with each line of a tap, without its newline, until the tap ends (nil), ctx ends, or f fails.
func (c *Client) Tap(ctx context.Context, pipeline string, o TapOptions, f func(line []byte) error) error {
	q := url.Values{"step": o.Steps}
	if o.Sources {
		q.Set("sources", "true")
	}
	if o.Count > 0 {
		q.Set("count", strconv.FormatUint(o.Count, 10))
	}
	body, err := c.open(ctx, http.MethodGet, "/v1/pipelines/"+url.PathEscape(pipeline)+"/tap?"+q.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read tap: %w", err)
		}
		if err := f([]byte(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
}
