package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// TestStartFromSavepoint: state and nothing else, once.
func TestStartFromSavepoint(t *testing.T) {
	b, info := stoppedAt95(t)
	copied := filepath.Join(b.dir, "copy.savepoint")
	data, err := os.ReadFile(info.File)
	if err == nil {
		err = os.WriteFile(copied, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.text = strings.Replace(strings.Replace(b.text, "  p:", "  r:", 1), "start: earliest", "start: savepoint "+copied, 1)
	b.start()
	b.put(96, 129)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 129 })
	if n := b.counts("r", "later"); fmt.Sprint(n[0]) != "10" { // 90 to 99: begun under the other name
		t.Errorf("windows counted %v", n)
	}
	b.halt()
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	b.start() // never read again
	b.put(130, 149)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 149 })
	b.halt()
	b.text = strings.Replace(b.text, "  r:", "  t:", 1)
	b.start()
	b.await("refusal", func(s *api.Status) bool {
		return s.Pipelines[0].State == "failed" && strings.Contains(s.Pipelines[0].Error, copied)
	})
	b.stop()
	<-b.done
}

// TestStartFromSavepointIsCutShort: a crash behind each step of the first start. The next one goes on from the savepoint: what the first try has left of the pipeline is no reason to refuse it, its
// streams begin where an undisturbed start has them begin, and nothing comes twice.
func TestStartFromSavepointIsCutShort(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		undisturbed := startCutShort(t, "", elsewhere, false)
		for _, step := range []string{"ordered", "journal skipped", "streams begun", "restored", "begun", "order removed"} {
			if !elsewhere && step == "journal skipped" {
				continue
			}
			if got := startCutShort(t, step, elsewhere, false); got != undisturbed {
				t.Errorf("elsewhere %v, a crash behind %q: %s, undisturbed %s", elsewhere, step, got, undisturbed)
			}
		}
	}
	if got := startCutShort(t, "restored", false, true); !strings.Contains(got, "would break continuity") {
		t.Errorf("a start that takes what an earlier try has left for results of its own: %s", got)
	}
}

// startCutShort tells what a pipeline that starts from a savepoint, here or on a device that has another journal, has delivered, or why it does not start, after a crash behind a step of its first
// start; "": none.
func startCutShort(t *testing.T, step string, elsewhere, leftCounts bool) string {
	b := benchAt(t, 95)
	info := b.savepoint(true)
	b.halt()
	if elsewhere {
		b = newBench(t, pipelineNamed("p", "log"))
	}
	b.options.leftCounts = leftCounts
	b.text = strings.Replace(strings.Replace(b.text, "  p:", "  r:", 1), "start: earliest", "start: savepoint "+info.File, 1)
	if step != "" {
		crash := fmt.Errorf("%w: crash behind %s", errFinal, step)
		b.options.crash = func(at string) error {
			if at == step {
				return crash
			}
			return nil
		}
		b.start()
		b.await(crash.Error(), func(s *api.Status) bool {
			return s.Pipelines[0].State == "failed" && strings.Contains(s.Pipelines[0].Error, crash.Error())
		})
		b.stop()
		<-b.done
		b.options.crash = nil
	}
	b.start()
	s := b.await("it has started, or has failed", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" || s.Pipelines[0].State == "running" })
	if s.Pipelines[0].State == "failed" {
		b.halt()
		return s.Pipelines[0].Error
	}
	b.put(96, 129) // from another journal it goes on with what comes from its start on
	b.await("delivery behind "+step, at(129))
	b.halt()
	ids, generations := b.ids("r", "now")
	want(t, "rows", ids, 96, 129)
	return fmt.Sprint(ids, generations, b.counts("r", "later"))
}
