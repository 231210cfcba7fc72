package known

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/pipeline/topic"
)

const (
	configs = "../data"
	sets    = "../testdata"
)

// TestKnownAnswers replays each pipeline at several batch sizes, on one instance and on two: the bytes are the same, and they are the answers.
func TestKnownAnswers(t *testing.T) {
	t.Parallel()
	outputs := map[string]map[string][]byte{} // set/pipeline -> sink -> lines
	for _, a := range answers {
		t.Run(a.set+"/"+a.file, func(t *testing.T) {
			run := a.set + "/" + a.pipeline
			if outputs[run] == nil {
				outputs[run] = replayAll(t, a)
			}
			got, want := records(t, outputs[run][a.sink]), expected(t, a)
			if problem := compare(a, got, want); problem != "" {
				t.Error(problem)
			}
			if len(got) > 1 && !a.some && compare(a, got[1:], want) == "" {
				t.Error("a missing row is not noticed")
			}
		})
	}
}

// TestEveryAnswerIsCompared: a file that nobody reads proves nothing.
func TestEveryAnswerIsCompared(t *testing.T) {
	read := map[string]bool{"nab-traffic/duplicates": true} // TestDeliveryCopies
	for _, a := range answers {
		read[a.set+"/"+a.file] = true
	}
	files, err := filepath.Glob(filepath.Join(sets, "*", "expected", "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers found: %v", err)
	}
	for _, f := range files {
		set := filepath.Base(filepath.Dir(filepath.Dir(f)))
		if name := set + "/" + strings.TrimSuffix(filepath.Base(f), ".csv"); !read[name] {
			t.Errorf("no test reads %s", name)
		}
	}
}

// TestDeliveryCopies: dedup drops as many rows as the answer lists.
func TestDeliveryCopies(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(sets, "nab-traffic", "expected", "duplicates.csv"))
	if err != nil {
		t.Fatal(err)
	}
	copies := uint64(strings.Count(string(want), "\n") - 1)
	for _, name := range []string{"complete", "windows", "late"} {
		_, counts := replayOnce(t, answer{set: "nab-traffic", pipeline: name}, 64, 1)
		for _, s := range counts.Steps {
			if s.UID == "once" && s.Dropped != copies {
				t.Errorf("pipeline %s drops %d copies, want %d", name, s.Dropped, copies)
			}
		}
	}
}

// replayAll gives the lines of each sink. How the recording is cut into batches never shows in them, nor on how many instances a step runs.
func replayAll(t *testing.T, a answer) map[string][]byte {
	t.Helper()
	first, _ := replayOnce(t, a, 512, 1)
	for _, o := range []struct{ rows, parallelism int }{{1, 1}, {7, 1}, {1, 2}, {7, 2}, {512, 2}} {
		again, _ := replayOnce(t, a, o.rows, o.parallelism)
		for sink, lines := range first {
			if !bytes.Equal(lines, again[sink]) {
				t.Errorf("%s, pipeline %s, sink %s: batches of %d rows, parallelism %d give other bytes than batches of 512 and 1",
					a.set, a.pipeline, sink, o.rows, o.parallelism)
			}
		}
	}
	return first
}

func replayOnce(t *testing.T, a answer, batchRows, parallelism int) (map[string][]byte, replay.Counts) {
	t.Helper()
	set, name := a.set, a.pipeline
	cfg, err := config.Load(filepath.Join(configs, a.set+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := cfg.Pipeline(name)
	if p == nil {
		t.Fatalf("%s.yaml has no pipeline %s", a.set, name)
	}
	in, err := os.Open(filepath.Join(sets, set, "arrivals.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p.Graph.Parallelism = parallelism
	var routes []replay.Route
	for _, s := range p.Graph.Sources {
		routes = append(routes, replay.Route{Source: s.Name, Match: func(name []byte) bool { return topic.Match(s.Filter, name) }})
	}
	var out, dead bytes.Buffer
	counts, err := replay.Run(t.Context(), replay.Options{
		Graph: p.Graph, Routes: routes, Input: in, Format: "jsonl", Out: &out, Dead: &dead, BatchRows: batchRows,
	})
	if err != nil {
		t.Fatal(err)
	}
	if dead.Len() > 0 {
		t.Errorf("%s, pipeline %s: dead letters: %.300s", set, name, dead.String())
	}
	return bySink(t, out.Bytes()), counts
}

// bySink takes apart what replay prints for several sinks.
func bySink(t *testing.T, out []byte) map[string][]byte {
	t.Helper()
	sinks, last := map[string][]byte{}, map[string]uint64{}
	for line := range bytes.Lines(out) {
		var l struct {
			Sink   string          `json:"sink"`
			Seq    uint64          `json:"seq"`
			Record json.RawMessage `json:"record"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
		if last[l.Sink]++; l.Seq != last[l.Sink] {
			t.Fatalf("sink %s: sequence %d, want %d", l.Sink, l.Seq, last[l.Sink])
		}
		sinks[l.Sink] = append(append(sinks[l.Sink], l.Record...), '\n')
	}
	return sinks
}

// row is a result or a line of an answer: text by column.
type row map[string]string

// records reads JSON lines; numbers keep their text.
func records(t *testing.T, lines []byte) (rows []row) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		rows = append(rows, record(t, line))
	}
	return rows
}

func record(t *testing.T, line []byte) row {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("read %q: %v", line, err)
	}
	r := row{}
	for k, v := range m {
		r[k] = fmt.Sprint(v)
	}
	return r
}

// expected reads an answer.
func expected(t *testing.T, a answer) []row {
	t.Helper()
	f, err := os.Open(filepath.Join(sets, a.set, "expected", a.file+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return table(t, csv.NewReader(f))
}

func table(t *testing.T, c *csv.Reader) (rows []row) {
	t.Helper()
	all, err := c.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("not even a header")
	}
	for _, cells := range all[1:] {
		r := row{}
		for i, name := range all[0] {
			r[name] = cells[i]
		}
		rows = append(rows, r)
	}
	return rows
}

// TestReplayCommand runs every answer through the built program, as a newcomer does, and reads its CSV.
func TestReplayCommand(t *testing.T) {
	t.Parallel()
	for _, a := range answers {
		t.Run(a.set+"/"+a.file, func(t *testing.T) {
			cmd := exec.Command(weir, "replay", "--pipeline", filepath.Join(configs, a.set+".yaml"), "--name", a.pipeline,
				"--sink", a.sink, "--input", filepath.Join(sets, a.set, "arrivals.jsonl"), "-o", "csv")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			got := table(t, csv.NewReader(bytes.NewReader(out)))
			if problem := compare(a, got, expected(t, a)); problem != "" {
				t.Error(problem)
			}
			var counts struct{ Sinks map[string]int }
			if err := json.Unmarshal(stderr.Bytes(), &counts); err != nil || counts.Sinks[a.sink] != len(got) {
				t.Errorf("standard error counts %d results, want %d (%v): %.300s", counts.Sinks[a.sink], len(got), err, &stderr)
			}
		})
	}
}

// near allows 1e-9 of the value.
func near(got, want string) bool {
	g, err1 := strconv.ParseFloat(got, 64)
	w, err2 := strconv.ParseFloat(want, 64)
	return err1 == nil && err2 == nil && max(g-w, w-g) <= 1e-9*max(w, -w)
}

// equalNumber is exact: 564 and 564.0 are the same float.
func equalNumber(got, want string) bool {
	g, err1 := strconv.ParseFloat(got, 64)
	w, err2 := strconv.ParseFloat(want, 64)
	return err1 == nil && err2 == nil && g == w
}
