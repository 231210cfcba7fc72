package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
)

// TestRule11_LatestStartsBehindDurableRecords: checkpoint 0 is durable; when the records before it are not, a power cut leaves it beyond
// the journal's end, and it can never be restored.
func TestRule11_LatestStartsBehindDurableRecords(t *testing.T) {
	c := log.Default()
	c.Linger = 10 * time.Second // nothing is synced while the test runs
	j, _, err := journal.Open(journal.Options{FS: disk.OS, Dir: t.TempDir(), Config: c, Stamp: func() pipeline.Stamp { return pipeline.Stamp{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryMessage, Source: "s", Topic: []byte("t"), Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	a := &attempt{agent: &Agent{journal: j}, spec: &config.Pipeline{Start: "latest"}}
	if at := a.startPosition(); at > j.Durable() {
		t.Errorf("starts behind position %d, durable is %d", at, j.Durable())
	}
}

// TestAllowEmptyLosesNoResult: a pipeline that begins anew gives its sinks a new generation. With the numbers of the old one its results
// would be taken for those that upstream holds, and dropped.
func TestAllowEmptyLosesNoResult(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "bbolt"))
	b.start()
	b.put(1, 300)
	b.await("delivery", settled)
	b.halt()
	found, err := filepath.Glob(filepath.Join(b.dir, "state", "pipelines", "*", "checkpoints.db"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	db := found[0]
	if err := os.WriteFile(db, []byte(strings.Repeat("rubbish ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.text = strings.Replace(b.text, "start: earliest", "start: latest", 1)
	b.options.AllowEmpty = map[string]bool{"p": true}
	for life := range 2 { // the second one restores checkpoint 0 of the new generation, or a later one
		b.start()
		b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
		b.put(301+100*life, 400+100*life)
		b.await("delivery", settled)
		b.halt()
	}
	b.wantIDs("p", [2]int{1, 500})
	if _, generations := b.ids("p", "now"); len(generations) == 500 && (generations[299] != 1 || generations[300] != 2 || generations[499] != 2) {
		t.Errorf("generations %v", generations)
	}
}
