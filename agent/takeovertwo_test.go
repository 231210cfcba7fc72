package agent

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// wantWhole: fsck finds nothing damaged, nothing but what is said here keeps the agent from running, and it has changed nothing.
func (b *bench) wantWhole(when string, stops ...string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "state")
	before := treeOf(b.t, dir)
	r, err := Check(b.t.Context(), b.parse(), false)
	if err != nil || len(r.Damage) > 0 || len(r.Stops) != len(stops) {
		b.t.Errorf("%s: fsck: %v, %+v", when, err, r)
	}
	for i, want := range stops {
		if i < len(r.Stops) && !strings.Contains(r.Stops[i], want) {
			b.t.Errorf("%s: fsck says %q, want %q", when, r.Stops[i], want)
		}
	}
	if after := treeOf(b.t, dir); after != before {
		b.t.Errorf("%s: fsck has changed\n%s\nto\n%s", when, before, after)
	}
}

// treeOf is every file below a directory with all that it holds.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() && !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := []byte{}
		if !d.IsDir() {
			if sum, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&out, "%s %s %x\n", path, info.Mode(), fnv(sum))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func fnv(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// TestTakeoverOfTwoPositions: two pipelines stand at different positions, and their state holds positions (last). Messages come in before they are restored, and the device dies between. Both go on
// behind the higher position, in one generation, and fsck calls what the journal leaves out no damage.
func TestTakeoverOfTwoPositions(t *testing.T) {
	last := func(s string) string { return strings.Replace(s, "{n: count()}", "{n: count(), l: last(id)}", 1) }
	old := newBench(t, last(pipelineNamed("p", "log"))+last(pipelineNamed("q", "log")))
	old.text = "board_serial: one\n" + old.text
	from := t.TempDir()
	save := func(name string) {
		t.Helper()
		if _, err := old.agent.CreateSavepoint(t.Context(), name, api.SavepointOptions{Pipeline: name, Dir: from}); err != nil {
			t.Fatal(err)
		}
	}
	old.start()
	old.put(1, 55)
	old.await("the first rows are out", at(55))
	save("q")
	old.put(56, 95)
	old.await("all rows are out", at(95))
	save("p")
	old.halt()
	twin := old.twin()
	if _, err := takeover.Run(t.Context(), twin.parse(), takeover.Options{Gateway: "test", From: takeover.Directory(from)}); err != nil {
		t.Fatal(err)
	}
	twin.wantWhole("before the first start")
	a, err := New(twin.parse(), twin.options) // it dies before any pipeline is restored
	if err != nil {
		t.Fatal(err)
	}
	twin.agent = a
	twin.put(201, 230)
	if n := a.journal.Last(); n != 95+30 {
		t.Errorf("the journal ends at %d", n)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	twin.wantWhole("with messages")
	twin.startWith(func(a *Agent) { twin.agent = a; twin.put(231, 245) })
	twin.put(246, 260)
	s := twin.await("it delivers", func(s *api.Status) bool {
		return settled(s) && s.Pipelines[0].Position >= 155 && s.Pipelines[1].Position >= 155
	})
	for _, p := range s.Pipelines {
		if p.Position != 155 {
			t.Errorf("%s is at %d", p.Name, p.Position)
		}
	}
	twin.halt()
	twin.wantWhole("once it runs")
	for name, kept := range map[string]int{"p": 95, "q": 55} {
		ids, generations := twin.ids(name, "now")
		var own []int
		for i, g := range generations {
			switch {
			case g == identity.GenerationsOf(2):
				own = append(own, ids[i])
			case g != 1:
				t.Errorf("%s: row %d is of generation %d", name, ids[i], g)
			}
		}
		want(t, name+": rows of the replacement", own, 201, 260)
		twin.wantLast(name, kept)
	}
}

// wantLast: every window says that its last row is the one that came last.
func (b *bench) wantLast(name string, kept int) {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID(name))
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: "later"}, func(g uint64, l wire.Line) error {
		var w struct {
			L     int
			Start int64 `json:"window_start"`
		}
		if err := json.Unmarshal(l.Data, &w); err != nil {
			return err
		}
		last := int(w.Start-1767225600000) + 9
		if g != 1 && last < 200 {
			last = kept // the window that was open when it was left
		}
		if n++; w.L != last {
			b.t.Errorf("%s: %s of generation %d: want last %d", name, l.Data, g, last)
		}
		return nil
	})
	if err != nil || n < 10 {
		b.t.Errorf("%d windows, %v", n, err)
	}
}

// TestLooksChangeNothing: fsck writes nothing and asks nobody: with a central store, on a fenced device, within an apply.
func TestLooksChangeNothing(t *testing.T) {
	b, _ := fencedWithin(t)
	b.wantWhole("fenced within an apply", "this device is fenced")
	rec := b.agent.applier.record()
	if rec.State != apply.Probation {
		t.Errorf("the apply is %s", rec.State)
	}
}
