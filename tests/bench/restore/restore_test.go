// Package restore_test measures what a start costs that reads a large state: make bench runs it.
package restore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"
)

// keys of the state, and how much CPU a restore of it may take.
const (
	keys          = 1_000_000
	cpuSecondsMax = 3.0
)

const benchConfig = `
sources:
  s:
    mqtt: {broker: none, topic: "t/{k}", qos: 1}
    fields: {device: string, temp: float}
pipelines:
  p:
    steps:
      - {uid: d, from: s, by: [device], deadband: {value: temp, threshold: 0.5}}
    sinks:
      - {uid: out, from: d, file: {path: out.jsonl}}
`

// million is the state of a deadband over so many devices.
type million struct{}

func (million) Sinks() []pipeline.SinkMark  { return nil }
func (million) Position() pipeline.Position { return 0 }
func (million) Entries(_, _ string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	val := []byte{byte(pipeline.Float), 0, 0, 0, 0, 0, 0, 0, 0}
	for i := range keys {
		key, err := pipeline.AppendKey(nil, pipeline.StringValue(fmt.Sprintf("device-%07d", i)))
		if err != nil {
			return state.Spec{}, true, err
		}
		binary.LittleEndian.PutUint64(val[1:], math.Float64bits(20+float64(i*7919%100_000)/977))
		if err := f(key, nil, val); err != nil {
			return state.Spec{}, true, err
		}
	}
	return state.Spec{}, true, nil
}

// cpu is what the process has used, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the process itself
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

type discard struct{ pipeline.ResultSink }

var benchID = snapshot.UUID{1}

// savedMillion makes a savepoint of a million keys.
func savedMillion(t *testing.T, dir string) (*plan.Graph, string) {
	t.Helper()
	cfg, err := config.Parse("bench.yaml", []byte(benchConfig))
	if err != nil {
		t.Fatal(err)
	}
	graph, path := cfg.Pipelines[0].Graph, filepath.Join(dir, "million.savepoint")
	head := savepoint.Head{
		UUID: make([]byte, 16), PlanHash: graph.Hash[:], Generation: 1,
		Tables: []savepoint.Table{savepoint.TableOf("d", state.Spec{Name: "last", Kind: state.Value, Type: "ops.deadband", Version: 1})},
	}
	if _, err := savepoint.Create(t.Context(), disk.OS, path, savepoint.Content{Head: head, State: million{}}, log.NewCodec(), nil); err != nil {
		t.Fatal(err)
	}
	return graph, path
}

func openBox(t *testing.T, dir string) *outbox.Outbox {
	t.Helper()
	box, _, err := outbox.Open(outbox.Options{FS: disk.OS, Dir: filepath.Join(dir, "outbox"), Config: outbox.Default(), Codec: log.NewCodec()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

func openStore(t *testing.T, dir string) snapshot.Store {
	t.Helper()
	s, err := snapshot.OpenLog(t.Context(), snapshot.LogOptions{FS: disk.OS, Dir: dir, Pipeline: benchID, Codec: log.NewCodec()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRestoreOfAMillionKeys: a savepoint is verified, made a checkpoint, and the checkpoint is verified and read into the tables, as a start does.
func TestRestoreOfAMillionKeys(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("a measurement; make bench runs it")
	}
	dir, ctx := t.TempDir(), t.Context()
	graph, path := savedMillion(t, dir)
	box := openBox(t, dir)
	open := func() snapshot.Store { return openStore(t, filepath.Join(dir, "checkpoints")) }

	runtime.GC()
	began := cpu()
	f, err := restore.ReadSavepoint(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	verified := cpu()
	store := open()
	m, err := savepoints.Restore(ctx, f, savepoints.Into{
		Store: store, Outbox: box, Pipeline: benchID, PlanHash: graph.Hash, Generation: 1, Take: func(uid string) (string, bool) { return uid, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	taken := cpu()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	runtime.GC()
	start := cpu()
	store = open()
	defer store.Close()
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{Store: store, Pipeline: benchID})
	if err != nil || r.Manifest.ID != m.ID {
		t.Fatalf("%+v, %v", r, err)
	}
	checked := cpu()
	_, err = exec.New(exec.Options{
		Graph: graph, Restore: r.Source, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) { return nil, context.Canceled },
		Sink: func(string) (pipeline.ResultSink, error) { return discard{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	loaded := cpu()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, whole := loaded-start, taken-began+loaded-start
	t.Logf("%d keys: savepoint of %.1f MB: verify %.2f CPU s, make a checkpoint %.2f; checkpoint of %.1f MB: verify %.2f, read into the tables %.2f",
		keys, float64(info.Size())/1e6, verified-began, taken-verified, float64(m.Base.Bytes)/1e6, checked-start, loaded-checked)
	t.Logf("restore of a checkpoint %.2f CPU s, of a savepoint %.2f", checkpoint, whole)
	if checkpoint > cpuSecondsMax || whole > cpuSecondsMax {
		t.Errorf("want %.1f CPU s at most", cpuSecondsMax)
	}
}
