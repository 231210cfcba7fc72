package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// sequence is what upstream holds of a sink: each row with its name.
type sequence struct {
	generation, seq uint64
	row             struct {
		ID, N   int
		Start   int64 `json:"window_start"`
		Partial bool
	}
}

func (b *bench) sequences(sink string) (list []sequence) {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID("p"))
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: sink}, func(g uint64, l wire.Line) error {
		s := sequence{generation: g, seq: l.Seq}
		if err := json.Unmarshal(l.Data, &s.row); err != nil {
			return err
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// twin is a device that is to take the place of b's: another board, another state_dir, the same upstream.
func (b *bench) twin() *bench {
	t := *b
	t.dir = b.t.TempDir()
	t.text = strings.Replace(strings.ReplaceAll(b.text, b.dir, t.dir), "board_serial: one", "board_serial: two", 1)
	return &t
}

// away lets the upstream be unreachable.
func (b *bench) away() *atomic.Bool {
	off := &atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if off.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b.receiver.ServeHTTP(w, r)
	}))
	b.t.Cleanup(server.Close)
	b.text, b.url = strings.ReplaceAll(b.text, b.url, server.URL), server.URL
	return off
}

// TestRule23_ReplacementGoesOnAndFencesTheDeviceBefore: a replacement is restored from a savepoint while the device before still runs. What waits in the savepoint was delivered meanwhile and
// is not sent again; the sequences go on in a generation of its own; windows of the loss say so; the device before stops and hands over what it has made since.
func TestRule23_ReplacementGoesOnAndFencesTheDeviceBefore(t *testing.T) {
	old := newBench(t, pipelineNamed("p", "log"))
	old.text = "board_serial: one\n" + old.text
	off := old.away()
	old.start()
	old.put(1, 55)
	old.await("the first rows are out", at(55))
	off.Store(true)
	old.put(56, 95)
	old.await("rows wait", func(s *api.Status) bool { return s.Pipelines[0].Position >= 95 && s.Pipelines[0].Lag == 0 })
	left := old.savepoint(false)
	if left.Results == 0 {
		t.Fatal("nothing waits in the savepoint")
	}
	off.Store(false)
	old.put(96, 120)
	old.await("they are out", at(120))

	twin := old.twin()
	takeOver(t, twin, filepath.Dir(left.File))
	twin.start()
	twin.put(201, 260) // what came between is lost
	twin.await("the replacement delivers", at(60))
	off.Store(true) // else the first of the rows may fence the device while the last are yet to come
	old.put(121, 150)
	old.await("its rows wait", func(s *api.Status) bool { return s.Pipelines[0].Checkpoint.Position >= 150 })
	off.Store(false)
	s := old.await("the device before is fenced", fenced)
	if s.Identity.Stranded.Results != 30+3 {
		t.Errorf("stranded %+v", s.Identity.Stranded)
	}
	old.end()
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := ExportHandover(t.Context(), old.parse(), old.options, dir); err != nil {
		t.Fatal(err)
	}
	var rows []int
	for _, r := range rig.JSONLines[resultLine](t, filepath.Join(dir, handoverResults)) {
		if strings.HasSuffix(r.Stream, "/now") {
			rows = append(rows, int(r.Seq))
		}
	}
	want(t, "rows that were handed over", rows, 121, 150)
	old.start()
	old.await("it starts fenced", func(s *api.Status) bool { return s.Identity.Fenced != "" })
	old.end()

	twin.put(261, 309)
	twin.await("the replacement goes on", at(109))
	twin.halt()
	twin.start() // and over a restart
	twin.put(310, 350)
	twin.await("the replacement goes on", at(150))
	twin.halt()

	own := identity.GenerationsOf(2)
	var ids []int
	for i, s := range twin.sequences("now") {
		ids = append(ids, s.row.ID)
		switch before := s.generation == 1; {
		case before && (s.seq != uint64(i+1) || s.row.ID > 120):
			t.Errorf("row %d is %d of generation 1", s.row.ID, s.seq)
		case !before && (s.generation != own || s.row.ID <= 200 || s.seq != uint64(95+s.row.ID-200)):
			t.Errorf("row %d is %d of generation %d", s.row.ID, s.seq, s.generation)
		}
	}
	want(t, "rows of the device before", ids[:120], 1, 120)
	want(t, "rows of the replacement", ids[120:], 201, 350)
	const base = 1767225600000
	seen := map[int64]int{}
	for _, s := range twin.sequences("later") {
		seen[s.row.Start]++
		if s.row.Partial != (s.generation == own) { // all of it lies within the margin
			t.Errorf("window %d of generation %d: partial is %v", s.row.Start-base, s.generation, s.row.Partial)
		}
	}
	if seen[base+80] != 1 || seen[base+90] != 2 || seen[base+200] != 1 { // 90 was open when it was left, and complete on the device before
		t.Errorf("windows %v", seen)
	}
}

// takeOver crashes behind each step of a restore in turn, and then does it.
func takeOver(t *testing.T, b *bench, from string) {
	t.Helper()
	crash := errors.New("crash")
	o := takeover.Options{Gateway: "test", From: takeover.Directory(from)}
	for n := 0; ; n++ {
		steps := 0
		o.Fault = func(string) error {
			if steps++; steps > n {
				return crash
			}
			return nil
		}
		told, err := takeover.Run(t.Context(), b.parse(), o)
		if err == nil {
			if n < 6 || told.Incarnation != "2.0" || len(told.Pipelines) != 1 || told.Pipelines[0].Loss.Position != 95 {
				t.Errorf("%d steps, %+v", n, told)
			}
			break
		}
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if a, err := New(b.parse(), b.options); err == nil || !strings.Contains(err.Error(), "cut short") {
			a.Close()
			t.Fatalf("an agent starts in half a replacement: %v", err)
		}
	}
	if _, err := takeover.Run(t.Context(), b.parse(), o); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second replacement in one state_dir: %v", err)
	}
}

// TestTakeoverRefuses what it cannot do whole, before anything is claimed or written but its own mark.
func TestTakeoverRefuses(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	from := t.TempDir()
	try := func(o takeover.Options) error {
		o.Gateway, o.From = "test", takeover.Directory(from)
		_, err := takeover.Run(context.Background(), b.parse(), o)
		return err
	}
	if err := try(takeover.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	old := newBench(t, pipelineNamed("q", "log"))
	old.start()
	old.await("it runs", at(0))
	list, err := old.agent.CreateSavepoint(t.Context(), "q", api.SavepointOptions{Pipeline: "q", Dir: from})
	if err != nil {
		t.Fatal(err)
	}
	old.halt()
	if err := try(takeover.Options{}); err == nil || !strings.Contains(err.Error(), "--accept-loss p") {
		t.Errorf("nothing is left of p: %v", err)
	}
	if err := try(takeover.Options{AcceptLoss: []string{"p"}}); err != nil {
		t.Errorf("p may start empty: %v", err)
	}
	if _, err := os.Stat(list[0].File); err != nil {
		t.Error("the directory's file is gone")
	}
}
