package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
)

// replaced opens a stream upstream as a device that has taken this one's place, or only an upgrade of it.
func (b *bench) replaced(sink string, inc uplink.Incarnation, generation uint64) {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID("p"))
	if err != nil {
		b.t.Fatal(err)
	}
	c := httpsink.Default()
	c.URL, c.Board = b.url, "another"
	e, err := httpsink.New(c)
	if err != nil {
		b.t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Open(b.t.Context(), uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: sink}, inc, generation); err != nil {
		b.t.Fatal(err)
	}
}

// end stops an agent whose ledger says nothing, since its pipelines are stopped.
func (b *bench) end() {
	b.t.Helper()
	b.stop()
	select {
	case err := <-b.done:
		if err != nil {
			b.t.Errorf("agent ended with %v", err)
		}
	case <-time.After(patience):
		b.t.Fatalf("the agent did not stop in %s", patience)
	}
}

func fenced(s *api.Status) bool { return s.Identity.Fenced != "" && s.Identity.Stranded != nil }

// TestRule29_FencedDeviceStopsKeepsAndHandsOver: a sink answers that another device has the stream. The device stops as a whole, stays so over a restart, and hands over what it has not
// delivered; taken back, it delivers just that, in a generation of its own.
func TestRule29_FencedDeviceStopsKeepsAndHandsOver(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	off := b.away()
	b.start()
	b.put(1, 20)
	b.await("the first rows are out", at(20))
	b.replaced("now", uplink.Incarnation{Major: 2}, identity.GenerationsOf(2))
	b.replaced("later", uplink.Incarnation{Major: 2}, identity.GenerationsOf(2))
	off.Store(true) // else the first of the rows may fence the device while the last are yet to come
	b.put(21, 45)
	b.await("the rows wait", func(s *api.Status) bool { return s.Pipelines[0].Checkpoint.Position >= 45 })
	off.Store(false)
	s := b.await("the device is fenced", fenced)
	if s.Pipelines[0].State != string(PipelineStopped) || !strings.Contains(strings.Join(s.Problems, "\n"), "FENCED") {
		t.Errorf("pipeline is %s, problems %q", s.Pipelines[0].State, s.Problems)
	}
	if err := b.agent.StartPipeline(t.Context(), "p"); !errors.Is(err, errFenced) {
		t.Errorf("a fenced device starts a pipeline: %v", err)
	}
	left := s.Identity.Stranded
	if left.Records != 0 || left.Results != 25+2 { // rows 21 to 45, the windows to 29 and to 39
		t.Errorf("left %+v", left)
	}
	b.end()

	b.start()
	s = b.await("it starts fenced", func(s *api.Status) bool {
		return fenced(s) && s.Pipelines[0].State == string(PipelineStopped)
	})
	if *s.Identity.Stranded != *left {
		t.Errorf("left %+v, before %+v", s.Identity.Stranded, left)
	}
	b.end()

	dir := filepath.Join(t.TempDir(), "out")
	told, err := ExportHandover(t.Context(), b.parse(), b.options, dir)
	if err != nil {
		t.Fatal(err)
	}
	results := rig.JSONLines[resultLine](t, filepath.Join(dir, handoverResults))
	if told.Results != left.Results || len(results) != int(told.Results) || len(rig.JSONLines[RecordLine](t, filepath.Join(dir, handoverRecords))) != int(told.Records) {
		t.Errorf("handed over %+v, %d results", told, len(results))
	}
	var rows []int
	for _, r := range results {
		var row struct{ ID int }
		if err := json.Unmarshal(r.Data, &row); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(r.Stream, "/now") {
			rows = append(rows, row.ID)
			if r.Generation != 1 || r.Seq != uint64(row.ID) {
				t.Errorf("row %d is %d of generation %d", row.ID, r.Seq, r.Generation)
			}
		}
	}
	want(t, "rows that were handed over", rows, 21, 45)

	inc, err := Retake(t.Context(), b.parse())
	if err != nil || inc.Major != 3 {
		t.Fatal(inc, err)
	}
	b.start()
	b.put(46, 60)
	b.await("all rows are out", at(60))
	ids, generations := b.ids("p", "now")
	want(t, "rows upstream", ids, 1, 60)
	for i, g := range generations {
		if own := identity.GenerationsOf(3); (ids[i] <= 20) != (g == 1) || ids[i] > 20 && g != own {
			t.Errorf("row %d is of generation %d", ids[i], g)
		}
	}
	b.wantCounts(6)
	b.halt()
}

func want(t *testing.T, what string, got []int, first, last int) {
	t.Helper()
	if len(got) != last-first+1 {
		t.Errorf("%s: %v, want %d to %d", what, got, first, last)
		return
	}
	for i, n := range got {
		if n != first+i {
			t.Errorf("%s: %v, want %d to %d", what, got, first, last)
			return
		}
	}
}

// TestRule29_AnUpgradeOfAStreamFencesNoDevice: a higher minor, or an equal incarnation of another board, concerns the one stream.
func TestRule29_AnUpgradeOfAStreamFencesNoDevice(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, 5)
	b.await("the first rows are out", at(5))
	b.replaced("now", uplink.Incarnation{Major: 1, Minor: 4}, 1)
	b.put(6, 30)
	s := b.await("one stream is refused", func(s *api.Status) bool {
		return len(s.Pipelines) == 1 && len(s.Pipelines[0].Sinks) == 3 && strings.Contains(strings.Join(s.Problems, " "), "fenced") && s.Pipelines[0].Position >= 30
	})
	if s.Identity.Fenced != "" || s.Pipelines[0].State != string(PipelineRunning) {
		t.Errorf("the device is fenced: %+v", s.Identity)
	}
	b.await("the other goes on", func(*api.Status) bool { return len(b.counts("p", "later")) == 3 })
	b.wantCounts(3)
	b.end()
}

// TestRule28_StateOfAnotherBoard: a state directory that was moved is refused, until the operator or the central store gives it a new major.
func TestRule28_StateOfAnotherBoard(t *testing.T) {
	b, plain := onBoardOne(t)
	b.text = "board_serial: two\n" + plain
	if _, err := New(b.parse(), b.options); !errors.Is(err, identity.ErrOtherBoard) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("the state of another board: %v", err)
	}
	b.options.NewBoard = true
	b.start()
	if got := b.agent.incarnation().String(); got != "2.0" || b.agent.board() != "set:two" {
		t.Errorf("incarnation %s of %s", got, b.agent.board())
	}
	b.goesOn()
	b.start() // the flag was left in the unit
	if got := b.agent.incarnation().String(); got != "2.0" {
		t.Errorf("incarnation %s", got)
	}
	b.halt()
}

// TestRule28_StateOfBeforeTheRecord: a state directory without a record was incarnation 1.0 to its upstreams; it becomes 1.1 of this board, and its streams go on.
func TestRule28_StateOfBeforeTheRecord(t *testing.T) {
	b, plain := onBoardOne(t)
	if err := os.Remove(filepath.Join(b.dir, "state", "incarnation")); err != nil {
		t.Fatal(err)
	}
	b.text = "board_serial: two\n" + plain // upstream knows another name: the gateway's was the board's
	b.start()
	if got := b.agent.incarnation().String(); got != "1.1" {
		t.Errorf("incarnation %s", got)
	}
	b.goesOn()
}

// onBoardOne is a gateway whose state directory is bound to board one, with 20 rows upstream; plain is its config without the board. It is stopped.
func onBoardOne(t *testing.T) (b *bench, plain string) {
	t.Helper()
	b = newBench(t, pipelineNamed("p", "log"))
	plain = b.text
	b.text = "board_serial: one\n" + plain
	b.start()
	b.put(1, 20)
	b.await("the first rows are out", at(20))
	b.halt()
	return b, plain
}

// goesOn: 20 rows more, the same journal in the same generation; then the agent stops.
func (b *bench) goesOn() {
	b.t.Helper()
	b.put(21, 40)
	b.await("it goes on", at(40))
	ids, generations := b.ids("p", "now")
	want(b.t, "rows upstream", ids, 1, 40)
	if generations[39] != 1 {
		b.t.Errorf("the same journal goes on in generation %d", generations[39])
	}
	b.halt()
}
