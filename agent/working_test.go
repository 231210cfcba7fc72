package agent

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/agent/config"
)

// TestWorkIsToldAtAHumanRate: the status has every step, the log a line every few seconds.
func TestWorkIsToldAtAHumanRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		at := &attempt{agent: &Agent{}, spec: &config.Pipeline{}, log: slog.New(slog.NewTextHandler(&log, nil))}
		at.spec.Name.Value = "p"
		told, end := at.work("restoring", "entries", 1000)
		for n := range uint64(1000) {
			time.Sleep(20 * time.Millisecond)
			told(n + 1)
			if p := at.agent.working.progressOf("p"); p == nil || p.Done != n+1 {
				t.Fatalf("%v", p)
			}
		}
		if got := at.agent.working.progressOf("p").String(); got != "restoring: 1000 of 1000 entries (100 %)" {
			t.Error(got)
		}
		end()
		if at.agent.working.progressOf("p") != nil {
			t.Error("it is still there when it has ended")
		}
		if lines := strings.Count(log.String(), "still working"); lines != 4 {
			t.Errorf("%d lines in 20 s: %s", lines, fmt.Sprint(log.String()))
		}
	})
}
