//go:build !nocentral

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/central"
)

// TestFleetCommands: each command, one after the other, in one agent that is started again where a command says so.
func TestFleetCommands(t *testing.T) {
	b := newFleetBench(t)
	b.text = strings.Replace(b.text, "gateway: test", "gateway: test # token: hunter2", 1)
	b.up()
	b.put(1, 20)
	b.await("delivery", at(20))
	state := func(name, want string) func(*api.Status) bool {
		return func(s *api.Status) bool {
			for _, p := range s.Pipelines {
				if p.Name == name {
					return p.State == want
				}
			}
			return false
		}
	}

	r := b.ends(b.order(document.DoSavepoint, func(c *document.Command) { c.Pipeline, c.Upload = "p", true }), document.ResultDone)
	if len(r.Files) != 1 || len(b.file(r.Files[0])) == 0 || r.Files[0] != "_fleet/report/test/file/savepoints/fleet-device-1-1-p.savepoint" {
		t.Errorf("savepoint: %+v", r)
	}
	b.ends(b.order(document.DoStop, nil), document.ResultDone)
	b.await("stop of p", state("p", "stopped"))
	b.await("stop of q", state("q", "stopped"))
	b.ends(b.order(document.DoStart, func(c *document.Command) { c.Pipeline = "p" }), document.ResultDone)
	b.await("start of p", state("p", "running"))
	b.ends(b.order(document.DoSavepoint, func(c *document.Command) { c.Pipeline, c.WithStop = "p", true }), document.ResultDone)
	b.await("stop behind a savepoint", state("p", "stopped"))
	b.ends(b.order(document.DoStart, nil), document.ResultDone)
	b.await("start of all", state("q", "running"))
	b.ends(b.order(document.DoRestartPipeline, func(c *document.Command) { c.Pipeline = "q" }), document.ResultDone)
	if r := b.ends(b.order(document.DoStop, func(c *document.Command) { c.Pipeline = "nobody" }), document.ResultRefused); !strings.Contains(r.Detail, "nobody") {
		t.Errorf("%+v", r)
	}

	r = b.ends(b.order(document.DoDiagnostics, func(c *document.Command) { c.Upload = true }), document.ResultDone)
	has := contents(t, b.file(r.Files[0]))
	for name, want := range map[string]string{"status.json": `"gateway": "test"`, "metrics.txt": "weir_fleet_polls_total", "config.yaml": "gateway: test", "log.txt": "command begun", "records/ledger.json": "device/test"} {
		if !strings.Contains(has[name], want) {
			t.Errorf("diagnostics: %s has no %q: %.400s", name, want, has[name])
		}
	}
	if strings.Contains(has["config.yaml"], "hunter2") {
		t.Error("diagnostics have a secret")
	}

	changed := strings.Replace(b.text, "window: {tumbling: 10ms}, aggregate: {n: count()}", "window: {tumbling: 10ms}, aggregate: {n: count(), least: min(id)}", 1)
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config, c.DryRun, c.Allow = changed, true, true }), document.ResultDone); !strings.Contains(r.Detail, "pipeline p: changed") {
		t.Errorf("dry run: %+v", r)
	}
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config = "gateway: [" }), document.ResultRefused); !strings.Contains(r.Detail, ":1:") {
		t.Errorf("%+v", r)
	}
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config = strings.Replace(b.text, "channel: stable", "channel: mine", 1) }), document.ResultRefused); !strings.Contains(r.Detail, "fleet changed") {
		t.Errorf("%+v", r)
	}

	n := b.order(document.DoRestart, nil)
	b.ended()
	b.up()
	b.ends(n, document.ResultDone)

	n = b.order(document.DoRotateKey, nil)
	b.ended()
	b.up()
	r = b.ends(n, document.ResultDone)
	old, now := b.keys[len(b.keys)-2], b.keys[len(b.keys)-1]
	if old.Equal(now) || !strings.Contains(r.Detail, "new key "+central.FormatPublic(now)) {
		t.Errorf("the key was not rotated: %+v", r)
	}
	if _, err := signed.VerifyDevice(b.file(depot.Result("test", "device/test", 1, n)), signed.TypeResult, old); err != nil {
		t.Errorf("the old key has not signed: %v", err)
	}
	b.keys = b.keys[len(b.keys)-1:]
	b.ends(b.order(document.DoStart, nil), document.ResultDone) // by the new key
	b.wantIDs("p", [2]int{1, 20})
	b.halt()
}

// contents are the files of an archive.
func contents(t *testing.T, b []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(text)
	}
}

// TestFleetThatIsBroken: a ledger that cannot be read keeps commands away, and no pipeline from running.
func TestFleetThatIsBroken(t *testing.T) {
	b := newFleetBench(t)
	dir := filepath.Join(b.dir, "state", "fleet")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "ledger.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.up()
	b.put(1, 10)
	s := b.await("delivery", at(10))
	if s.Fleet == nil || !strings.Contains(s.Fleet.Broken, "ledger.json") || len(s.Problems) == 0 {
		t.Errorf("%+v", s.Fleet)
	}
	b.await("a report", func(s *api.Status) bool { return s.Fleet.Reports > 0 })
	if said := string(b.read(depot.State("test"), signed.TypeState)); !strings.Contains(said, "nobody directs this gateway from afar") {
		t.Errorf("reported: %s", said)
	}
	b.halt()
	r, err := Check(t.Context(), b.agent.config, true)
	if err != nil || len(r.Stops) > 0 || !strings.Contains(fmt.Sprint(r.Repaired), "ledger.json.aside-1") {
		t.Errorf("%+v, %v", r, err)
	}
	b.order(document.DoStop, nil) // published before the gateway has looked again
	b.up()
	if r := b.ends(1, document.ResultFailed); !strings.Contains(r.Detail, "Give it again") {
		t.Errorf("%+v", r)
	}
	b.order(document.DoSavepoint, nil)
	b.ends(2, document.ResultDone)
	b.halt()
}
