package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// TestFollow: each line once, that of the pipeline alone, and an empty one at the end.
func TestFollow(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir-progress-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Uint64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		s := api.Status{Pipelines: []api.PipelineStatus{{Name: "q", Progress: &api.Progress{What: "other"}}, {Name: "p"}}}
		if n > 1 {
			s.Pipelines[1].Progress = &api.Progress{What: "restoring", Unit: "entries", Done: min(n/3, 2) * 10, Total: 20}
		}
		_ = json.NewEncoder(w).Encode(s)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	follow(ctx, time.Millisecond, api.Dial(socket), "p", func(line string) {
		if lines = append(lines, line); line == "restoring: 20 of 20 entries (100 %)" {
			cancel()
		}
	})
	if want := []string{"restoring: 0 of 20 entries (0 %)", "restoring: 10 of 20 entries (50 %)", "restoring: 20 of 20 entries (100 %)", ""}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
