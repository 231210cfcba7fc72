package docs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// instants differ from run to run.
var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|"kept_ms":\d+`)

func timeless(b []byte) string {
	return instants.ReplaceAllStringFunc(string(b), func(s string) string {
		if s[0] == '"' {
			return `"kept_ms":1769860800000`
		}
		return "2026-01-31T12:00:00Z"
	})
}

// TestDeadLettersPage runs the page's commands on an agent that got bad messages, those in `shell letters` blocks while it runs, those in
// `shell stopped` blocks on its files.
func TestDeadLettersPage(t *testing.T) {
	const page = root + "/docs/deadletters.md"
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "letters.yaml")
	var agent *rig.Child
	start := func(text string) {
		text = strings.NewReplacer("127.0.0.1:1883", broker.Addr(), "/var/lib/weir", dir+"/state").Replace(text)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if agent, err = rig.StartChild(filepath.Join(dir, "log"), nil, weir, "run", "-c", file); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(agent.Kill)
		await(t, dir, func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" })
		for i, payload := range []string{`{"temp":"hot"}`, "\xff\xfe", `{"temp":71}`} {
			broker.Publish(fmt.Sprintf("boiler/%c", 'a'+i), 1, false, []byte(payload))
		}
		await(t, dir, func(s *api.Status) bool { return s.Pipelines[0].Dead.Kept == 2 && s.Pipelines[0].Lag == 0 })
	}
	var printed []byte
	for _, b := range blocks(t, page) {
		where := fmt.Sprintf("%s:%d", page, b.line)
		switch {
		case b.info == "yaml letters.yaml":
			start(b.text)
		case strings.HasPrefix(b.info, "shell "):
			if b.info == "shell stopped" {
				if err := rig.CheckLedgerAt(t.Context(), filepath.Join(dir, "state", "weir.sock"), 30*time.Second); err != nil {
					t.Error(err)
				}
				if err := agent.Stop(rig.Patience); err != nil {
					t.Fatal(err)
				}
			}
			printed = b.run(t, where, dir)
		case b.info == "output":
			if !strings.HasPrefix(timeless(printed), strings.TrimSuffix(b.text, "\n")) {
				t.Errorf("%s: printed was\n%s", where, timeless(printed))
			}
		}
	}
}

func await(t *testing.T, dir string, done func(s *api.Status) bool) {
	t.Helper()
	c := api.Dial(filepath.Join(dir, "state", "weir.sock"))
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s, err := c.Status(context.Background()); err == nil && len(s.Pipelines) > 0 && len(s.Sessions) > 0 && (s.Pipelines[0].Dead != nil) && done(&s) {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("in vain waited for the agent:\n%s", log)
}
