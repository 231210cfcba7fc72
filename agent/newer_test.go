package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/flash"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/store/boltkv"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// appendRaw puts a record into a log as a newer build would: under a version that this one does not know.
func appendRaw(t *testing.T, dir string, rec []byte) {
	t.Helper()
	c := log.Default()
	c.SegmentBytesMin = 256 << 10
	l, _, err := log.Open(log.Options{FS: disk.OS, Dir: dir, Config: c})
	if err == nil {
		if _, err = l.Append(rec); err == nil {
			err = errors.Join(l.Sync(t.Context()), l.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sumsBelow gives the sha256 of each file below a directory.
func sumsBelow(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWhatANewerBuildWroteIsLeftAlone: each format, one version further than this build reads. The pipeline fails, or the agent does not start; both say why, in the same
// words, try nothing again, and change no byte.
func TestWhatANewerBuildWroteIsLeftAlone(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	replace := func(name string, text string) func(t *testing.T, state, dir string) {
		return func(t *testing.T, state, dir string) {
			if name != "pipelines.json" {
				state = dir
			}
			if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		write func(t *testing.T, state, dir string)
		says  string
		agent bool // does not start
	}{
		"registry":      {replace("pipelines.json", `{"format": 2, "pipelines": ["of another form"]}`), "(format 2, this build reads up to 1): registry", true},
		"last run":      {replace("lastrun.json", `{"format": 2, "plan": 7}`), "(format 2, this build reads up to 1): lastrun.json", false},
		"restore order": {replace("restore.json", `{"format": 3, "file": {}}`), "(format 3, this build reads up to 1): restore.json", false},
		"inheritance":   {replace(inheritedFile, `{"format": 2, "generation": 7, "sinks": 1}`), "(format 2, this build reads up to 1): inherited.json", false},
		"loss":          {replace(takeover.LossFile, `{"format": 2, "from": "then"}`), "(format 2, this build reads up to 1): loss.json", false},
		"record of an apply": {func(t *testing.T, state, _ string) {
			text := []byte(`{"format": 2, "state": 7}`)
			dir := filepath.Join(state, "apply")
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "record"), fmt.Appendf(nil, "%s\n%x\n", text, sha256.Sum256(text)), 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "(format 2, this build reads up to 1): ", true},
		"incarnation": {func(t *testing.T, state, _ string) {
			if err := os.WriteFile(filepath.Join(state, "incarnation"), []byte(`{"version": 2, "major": "three"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "(format 2, this build reads up to 1): incarnation", true},
		"fence": {func(t *testing.T, state, _ string) {
			if err := os.WriteFile(filepath.Join(state, "fenced"), []byte(`{"version": 2, "major": 3}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "(format 2, this build reads up to 1): note of a fence", true},
		"outbox": {func(t *testing.T, _, dir string) {
			streams, err := filepath.Glob(filepath.Join(dir, "outbox", "s-*"))
			if err != nil || len(streams) == 0 {
				t.Fatal(streams, err)
			}
			appendRaw(t, streams[0], []byte{3, 1, 0, 0})
		}, "(format 3, this build reads up to 2): outbox record", false},
		"dead letters": {func(t *testing.T, _, dir string) {
			appendRaw(t, filepath.Join(dir, "dead"), []byte{3, 1, 0, 0})
		}, "(format 3, this build reads up to 2): dead letter record", false},
		"checkpoint record": {func(t *testing.T, _, dir string) {
			rec := []byte{'P', 2, 0, 0, 0, 0, 0, 0, 0, 1}
			sum := crc32.Checksum(rec, castagnoli)
			appendRaw(t, filepath.Join(dir, "checkpoints", "log"), append(rec, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)))
		}, "(format 2, this build reads up to 1): checkpoint record", false},
		"catalog": {func(t *testing.T, _, dir string) {
			db, err := boltkv.Open(filepath.Join(dir, "catalog.db"), boltkv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *boltkv.Tx) error {
				return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte{0, 0, 0, 0, 0, 0, 0, 2})
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}, "(format 2, this build reads up to 1): checkpoint catalog", false},
		// What a log frame, a manifest, a base, a bbolt store, a state table or a savepoint of a higher version says is shown in their packages.
		"journal": {func(t *testing.T, state, _ string) {
			appendRaw(t, filepath.Join(state, "journal"), []byte{200, 0, 0, 0, 0, 0, 0})
		}, "(format 200, this build reads up to 11): kind of a journal entry", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pipelineNamed("p", "log"))
			b.start()
			b.put(1, 50)
			b.await("delivery", at(50))
			id, err := statedir.ParseUUID(b.agent.registry.UUID("p"))
			if err != nil {
				t.Fatal(err)
			}
			b.halt()
			state := filepath.Join(b.dir, "state")
			dir := filepath.Join(state, "pipelines", id.String())
			c.write(t, state, dir)
			before := sumsBelow(t, state)
			says := "written by a newer weir " + c.says
			if c.agent {
				if _, err := New(b.parse(), b.options); err == nil || !record.IsNewer(err) || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want %q", err, says)
				}
			} else {
				b.start()
				s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
				if got := s.Pipelines[0].Error; !strings.Contains(got, says) || strings.Contains(got, "corrupt") || strings.Contains(got, "damage") || s.Pipelines[0].Restarts > 0 {
					t.Errorf("%d restarts, %q, want %q", s.Pipelines[0].Restarts, got, says)
				}
				b.stop()
				if err := <-b.done; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			after := sumsBelow(t, state)
			for _, sums := range []map[string][32]byte{before, after} {
				delete(sums, filepath.Join(state, "lock"))
				delete(sums, filepath.Join(state, "flash.json")) // of the agent, which runs on without that pipeline
				delete(sums, filepath.Join(state, flash.File))   // each start keeps what was written to the disk
				if name != "catalog" {                           // it is written when the store closes
					delete(sums, filepath.Join(dir, "catalog.db"))
				}
			}
			if name == "journal" { // the pipeline runs until it comes to the entry
				return
			}
			for path, sum := range before {
				if after[path] != sum {
					t.Errorf("%s was changed", path)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d files, %d before: %v", len(after), len(before), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}
