package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
)

// refusedFor starts the agent and wants the one pipeline to be refused with this in the reason, and its checkpoints to be left alone.
func (b *bench) refusedFor(parts ...string) {
	b.t.Helper()
	b.start()
	s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	for _, part := range parts {
		if !strings.Contains(s.Pipelines[0].Error, part) {
			b.t.Errorf("the reason does not say %q: %s", part, s.Pipelines[0].Error)
		}
	}
	if strings.Contains(s.Pipelines[0].Error, "allow-empty") {
		b.t.Errorf("it is told how to lose the state, which is all there: %s", s.Pipelines[0].Error)
	}
	b.halt()
}

func (b *bench) replaceText(old, new string) { b.text = strings.Replace(b.text, old, new, 1) }

// TestAnotherStoreIsRefusedUntilASavepointBringsTheStateAlong: a restart with another checkpoint.store finds no checkpoints, or those that were left
// behind when the pipeline changed its store. Neither may be gone on from.
func TestAnotherStoreIsRefusedUntilASavepointBringsTheStateAlong(t *testing.T) {
	b := benchAt(t, 95)
	b.halt()

	b.replaceText("store: log", "store: bbolt")
	b.refusedFor("checkpoint.store is bbolt", "Set it back to log", "weir pipeline stop p --savepoint")
	if found, _ := filepath.Glob(filepath.Join(b.dir, "state", "pipelines", "*", statedir.BoltStoreFile)); found != nil {
		t.Errorf("a store was made: %v", found)
	}

	b.replaceText("store: bbolt", "store: log")
	b.start()
	b.put(96, 120)
	b.await("delivery", at(120))
	info := b.savepoint(true)
	b.halt()
	b.replaceText("store: log", "store: bbolt")
	if err := OrderRestore(filepath.Join(b.dir, "state"), "p", api.RestoreOptions{File: info.File}); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.put(121, 150)
	b.await("delivery", at(150))
	b.halt()

	b.replaceText("store: bbolt", "store: log") // its checkpoints of before are there, and whole
	b.refusedFor("checkpoint.store is log", "in store bbolt")
	b.replaceText("store: log", "store: bbolt")
	b.start()
	b.put(151, 159)
	b.await("delivery", at(159))
	b.halt()
	b.wantIDs("p", [2]int{1, 159})
	b.wantCounts(15)
}

// TestAnotherDirectoryOfCheckpoints: one that they were not moved to is refused; they may be moved.
func TestAnotherDirectoryOfCheckpoints(t *testing.T) {
	b := benchAt(t, 95)
	b.halt()
	other := filepath.Join(b.dir, "other")
	b.replaceText("store: log", "store: log, dir: "+other)
	b.refusedFor("checkpoint.dir is another", "move checkpoints and catalog.db from there to "+other)
	own, err := filepath.Glob(filepath.Join(b.dir, "state", "pipelines", "*"))
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	to := statedir.CheckpointsDir(own[0], other)
	if err := os.MkdirAll(to, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{statedir.LogStoreDir, statedir.CatalogFile} {
		if err := os.Rename(filepath.Join(own[0], name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.put(96, 109)
	b.await("delivery", at(109))
	b.halt()
	b.wantIDs("p", [2]int{1, 109})
	b.wantCounts(10)
}
