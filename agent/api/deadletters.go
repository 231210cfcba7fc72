package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// DeadLetter is one line of the answer to GET /v1/pipelines/{name}/deadletters.
type DeadLetter struct {
	Seq    uint64          `json:"seq"`
	Letter json.RawMessage `json:"letter"`
}

// deadLettersMax bounds one answer.
const deadLettersMax = 1000

// deadLetters streams dead letters as JSON lines, behind ?after=SEQ, at most ?limit=N.
func (s *Server) deadLetters(w http.ResponseWriter, r *http.Request) {
	after, err1 := number(r, "after", 0)
	limit, err2 := number(r, "limit", 100)
	if err := errors.Join(err1, err2); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	started := false
	err := s.agent.DeadLetters(r.PathValue("name"), after, int(min(limit, deadLettersMax)), func(seq uint64, letter []byte) error {
		if !started {
			w.Header().Set("Content-Type", "application/x-ndjson")
			started = true
		}
		return json.NewEncoder(w).Encode(DeadLetter{Seq: seq, Letter: letter})
	})
	if err != nil && !started {
		answer(w, nil, err)
	}
}

func number(r *http.Request, name string, fallback uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("parameter %s is %q; allowed is a whole number", name, text)
	}
	return n, nil
}
