package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

const lookupPipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: named, from: s, lookup: {file: DIR/names.csv, on: [k], columns: [n]}}
      - {uid: all, from: named, select: {id: id * 1000 + n, k: k}}
    sinks:
      - {uid: now, from: all, commit: immediate, http: {url: "URL"}}
`

// writeNames sets the file of lookupPipeline: the number of the key.
func (b *bench) writeNames(n string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "names.csv"), []byte("k,n\nk,"+n+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestChangedLookupFile: a pipeline whose file changed goes on with the content that its checkpoints were made with, and says so; it takes the
// file again when it is as it was, and is refused when the kept content is gone.
func TestChangedLookupFile(t *testing.T) {
	b := newBench(t, lookupPipeline)
	running := func(stale ...string) func(s *api.Status) bool {
		return func(s *api.Status) bool {
			return s.Pipelines[0].State == "running" && s.Pipelines[0].Sources != nil && slices.Equal(s.Pipelines[0].StaleLookups, stale)
		}
	}
	file := filepath.Join(b.dir, "names.csv")
	b.writeNames("1")
	b.start()
	b.put(1, 100)
	b.await("delivery", settled)
	b.halt()
	b.writeNames("2")
	b.start()
	s := b.await("start with the earlier content", running(file))
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "earlier content of "+file) {
		t.Errorf("problems %q", s.Problems)
	}
	b.put(101, 200)
	b.await("delivery", settled)
	b.halt()
	b.writeNames("1")
	b.start()
	b.await("start with the file as it was", running())
	b.halt()
	ids, _ := b.ids("p", "now")
	for i, id := range ids {
		if id != (i+1)*1000+1 {
			t.Fatalf("result %d is %d, want the number 1 behind it", i, id)
		}
	}
	if len(ids) != 200 {
		t.Errorf("%d results, want 200", len(ids))
	}
	kept, err := filepath.Glob(filepath.Join(b.dir, "state", "pipelines", "*", lookupsFile+"*.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept are %v, %v, want one file", kept, err)
	}
	if err := os.WriteFile(kept[0], []byte("[]"), 0o600); err != nil { // damaged: the hash shows it
		t.Fatal(err)
	}
	b.writeNames("3")
	b.start()
	s = b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if !strings.Contains(s.Pipelines[0].Error, "the content of "+file+" is part of it") {
		t.Errorf("refused with %q", s.Pipelines[0].Error)
	}
	b.halt()
}
