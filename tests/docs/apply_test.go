package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// TestApplyPage runs the page's commands on an agent with its first config.
func TestApplyPage(t *testing.T) {
	const page = root + "/docs/apply.md"
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	dir := t.TempDir()
	var agent *rig.Child
	var printed []byte
	for _, b := range blocks(t, page) {
		where := fmt.Sprintf("%s:%d", page, b.line)
		switch kind, name, _ := strings.Cut(b.info, " "); {
		case kind == "yaml" && name != "":
			text := strings.NewReplacer("127.0.0.1:1883", broker.Addr(), "/var/lib/weir", dir+"/state").Replace(b.text)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if name != "site.yaml" {
				continue
			}
			if agent, err = rig.StartChild(filepath.Join(dir, "log"), nil, weir, "run", "-c", filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(agent.Kill)
			await(t, dir, func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" })
			for _, boiler := range []string{"a", "b"} {
				broker.Publish("boiler/"+boiler, 1, false, []byte(`{"temp":71}`))
			}
			await(t, dir, func(s *api.Status) bool { return s.Pipelines[0].Position >= 2 && s.Pipelines[0].Lag == 0 })
		case b.info == "shell apply":
			printed = b.run(t, where, dir)
		case b.info == "output":
			if !strings.HasPrefix(string(printed), strings.TrimSuffix(b.text, "\n")) {
				t.Errorf("%s: printed was\n%s", where, printed)
			}
		}
	}
	if t.Failed() {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Logf("%s", log)
	}
	if err := agent.Stop(time.Minute); err != nil {
		t.Error(err)
	}
}
