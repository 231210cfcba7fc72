//go:build !nocentral

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// anUpgrade is an agent that tells of an upgrade, one look behind the other; the last is told for ever.
func anUpgrade(t *testing.T, c *cli, looks ...api.UpgradeStatus) (socket string) {
	t.Helper()
	socket = filepath.Join(c.dir, "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	next := func() api.UpgradeStatus {
		mu.Lock()
		defer mu.Unlock()
		s := looks[0]
		looks = looks[min(1, len(looks)-1):]
		s.Number = 3
		return s
	}
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/upgrade", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(next()) })
	m.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		u := next()
		json.NewEncoder(w).Encode(api.Status{Upgrade: &u})
	})
	s := &http.Server{Handler: m}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(l) }() // ends with Close
	t.Cleanup(func() { s.Close(); <-served })
	return socket
}

// TestUpgradeIsWaitedFor: each step is told once, not each second of a trial; in JSON the last line has the outcome.
func TestUpgradeIsWaitedFor(t *testing.T) {
	trial := func(up int) api.UpgradeStatus {
		return api.UpgradeStatus{State: "probation", Tries: 2, Held: int64(1000 * up), Waits: fmt.Sprintf("it is up for 1m%ds, and 2m0s are asked for", up)}
	}
	for _, c := range []struct {
		end  string
		code int
	}{{"committed", 0}, {"rolled back", exitGoneBack}, {"failed", exitFailed}} {
		cli := newCLI(t, cliConfig)
		release := filepath.Join(cli.dir, "release.json")
		if err := os.WriteFile(release, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, output := range []string{"text", "json"} {
			socket := anUpgrade(t, cli, api.UpgradeStatus{State: "accepted"}, trial(1), trial(2), trial(13), api.UpgradeStatus{State: c.end, Why: "so it is"})
			code, out, message := cli.run("upgrade", "x", "--release", release, "--wait", "-o", output, "--socket", socket)
			if code != c.code {
				t.Errorf("%s: exit code %d, want %d: %s", c.end, code, c.code, message)
			}
			steps := strings.Count(out, "upgrade    3")
			if output == "json" {
				steps = strings.Count(out, "\n")
				var last api.UpgradeStatus
				lines := strings.Split(strings.TrimSpace(out), "\n")
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.State != c.end || last.Why != "so it is" {
					t.Errorf("the last line is %q, %v", lines[len(lines)-1], err)
				}
			}
			if steps != 3 {
				t.Errorf("%s: %d steps are told in %s, want 3:\n%s", c.end, steps, output, out)
			}
			os.Remove(socket)
		}
	}
}

// TestNoStartIsLeft: the last start of a program on trial is told as such.
func TestNoStartIsLeft(t *testing.T) {
	out := &strings.Builder{}
	printUpgradeText(out, &api.UpgradeStatus{State: "probation"})
	if !strings.Contains(out.String(), "no start is left") {
		t.Error(out)
	}
	out.Reset()
	printUpgradeText(out, &api.UpgradeStatus{State: "committed"})
	if strings.Contains(out.String(), "start is left") {
		t.Error(out)
	}
}
