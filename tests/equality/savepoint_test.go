package equality

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

// fileKeeper sends every checkpoint through a savepoint file before a life starts from it.
type fileKeeper struct {
	memoryKeeper
	graph *plan.Graph // of the life that made it
	lose  bool        // planted: the last entry of each table is left out
}

// sorted gives a checkpoint's entries as stores do.
type sorted struct {
	*saved
	lose bool
}

func (s sorted) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	spec, ok := s.specs[uid+"/"+name]
	table := s.entries[uid+"/"+name]
	keys := slices.SortedFunc(maps.Keys(table), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	if s.lose && len(keys) > 0 && uid[0] != '$' {
		keys = keys[:len(keys)-1]
	}
	for _, k := range keys {
		if err := f([]byte(k[0]), []byte(k[1]), []byte(table[k])); err != nil {
			return spec, ok, err
		}
	}
	return spec, ok, nil
}

var fileCodec = log.NewCodec()

func (k *fileKeeper) restore(back int) (pipeline.StateSource, error) {
	from, err := k.memoryKeeper.restore(back)
	if from == nil || err != nil {
		return nil, err
	}
	c := from.(*saved)
	h := savepoint.Head{UUID: make([]byte, 16), PlanHash: make([]byte, 32), Position: uint64(c.position)}
	for _, s := range k.graph.Steps {
		h.Steps = append(h.Steps, savepoint.Step{UID: s.UID, Kind: s.Kind, Params: s.Params, Behaviour: uint64(s.Behaviour), Stateful: s.Stateful})
	}
	for _, name := range slices.Sorted(maps.Keys(c.specs)) {
		h.Tables = append(h.Tables, savepoint.TableOf(name[:strings.LastIndexByte(name, '/')], c.specs[name]))
	}
	for _, m := range c.sinks {
		h.Sinks = append(h.Sinks, savepoint.Sink{UID: m.UID, Generation: m.Generation, Seq: m.Seq, Chain: m.Chain, Confirmed: m.Seq, ChainConfirmed: m.Chain})
	}
	m := disktest.NewMem()
	if _, err := savepoint.Create(context.Background(), m, "/s", savepoint.Content{Head: h, State: sorted{c, k.lose}}, fileCodec, nil); err != nil {
		return nil, err
	}
	b, err := disk.ReadFile(m, "/s")
	if err != nil {
		return nil, err
	}
	return savepoint.Open(context.Background(), bytes.NewReader(b), int64(len(b)), fileCodec, nil)
}

// TestSavepointsAreEqual: each life starts from a savepoint, with a parallelism and a backend of its own.
func TestSavepointsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		k := &fileKeeper{graph: compile(t, d.text)}
		if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, k); wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
	})
}

// grown is the config with one more step in front of all others. It reads fields of its own, which no message can spoil: a message whose new
// field cannot be read would be dead for all.
func grown(text string) string {
	text = strings.Replace(text, "    steps:\n", "    steps:\n      - {uid: e0, from: a, filter: \"$topic != 'q' && $qos < 3\"}\n", 1)
	return strings.Replace(text, "    sinks:\n", "    sinks:\n      - {uid: to-e0, from: e0, http: {url: \"http://127.0.0.1:9/weir\"}}\n", 1)
}

// evolving gives the drawn plan for the first lives, and the grown one behind them.
func (d *drawn) evolving(t fatal, at int) func() *plan.Graph {
	n := -1
	return func() *plan.Graph {
		if n++; n < at {
			return compile(t, d.text)
		}
		return compile(t, grown(d.text))
	}
}

// keptBy tells which steps' state the grown plan does not take over.
func keptBy(text string, t fatal) (lost []string) {
	old, next := compile(t, text), compile(t, grown(text))
	h := savepoint.Head{PlanHash: make([]byte, 32)}
	var entries []uint64
	for _, s := range old.Steps {
		h.Steps = append(h.Steps, savepoint.Step{UID: s.UID, Kind: s.Kind, Params: s.Params, Behaviour: uint64(s.Behaviour), Stateful: s.Stateful})
		h.Tables = append(h.Tables, savepoint.Table{UID: s.UID, Name: "t"})
		entries = append(entries, 1)
	}
	v, err := savepoints.Judge(&h, entries, next, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, l := range v.Lines {
		if l.Fate != savepoints.Keep && l.UID != "e0" {
			lost = append(lost, fmt.Sprintf("%s: %s", l.UID, l.Reason))
		}
	}
	return lost
}

// TestGrownPlansAreEqual: a plan that grows by a step, and its source by a field, goes on with every other step's state, and makes what the old
// one would have made.
func TestGrownPlansAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		if lost := keptBy(d.text, t); len(lost) > 0 { // rows lie in the state of sorts and joins: those say so
			if i := slices.IndexFunc(lost, func(why string) bool { return !strings.Contains(why, "layout [") }); i >= 0 {
				t.Fatalf("a step that reads more fields takes the state of another: %s\n%s", lost[i], d.text)
			}
			t.Skip("a step keeps rows")
		}
		d.all["to-e0"] = &stream{ignored: true}
		d.all[exec.DeadSink] = &stream{ignored: true} // a dead letter shows the fields of the row, of which there are more now
		at := rapid.IntRange(0, len(d.lives)).Draw(t, "grows at life")
		if wrong := live(t, d.evolving(t, at), d.entries, d.all, nil, d.lives, &fileKeeper{graph: compile(t, d.text)}); wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
	})
}

// TestSavepointFaultIsFound: one entry that is missing must show.
func TestSavepointFaultIsFound(t *testing.T) {
	for seed := range 400 {
		d := rapid.Custom(draw).Example(seed)
		k := &fileKeeper{graph: compile(t, d.text), lose: true}
		if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, k); wrong != "" {
			t.Logf("found with example %d: %s", seed, wrong)
			return
		}
	}
	t.Fatal("not found")
}
