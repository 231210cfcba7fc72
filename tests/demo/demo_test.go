package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/wire"
)

// testOptions build the agent and point to the repository's data.
func testOptions(t *testing.T) options {
	t.Helper()
	o := options{weir: filepath.Join(t.TempDir(), "weir"), config: "../../configs/demo.yaml", data: "../testdata/nab-traffic", dir: t.TempDir()}
	o.fast()
	if err := rig.BuildWeir(o.weir); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestFast is `make run ARGS=--fast`.
func TestFast(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	o := testOptions(t)
	var out bytes.Buffer
	ok, err := run(t.Context(), o, &screen{w: &out, every: o.refresh})
	t.Logf("%s", out.Bytes())
	if err != nil || !ok {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if left, _ := filepath.Glob(filepath.Join(o.dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOracleFindsWhatIsWrong plants each fault in a stream that is right otherwise.
func TestOracleFindsWhatIsWrong(t *testing.T) {
	rec, err := loadRecording("../testdata/nab-traffic")
	if err != nil {
		t.Fatal(err)
	}
	known, err := loadAnswers(&options{data: "../testdata/nab-traffic"}, rec)
	if err != nil {
		t.Fatal(err)
	}
	type planted func(lines []wire.Line) []wire.Line
	number := func(lines []wire.Line) []wire.Line { // sequences without a hole: a fault of the engine, not of the delivery
		for i := range lines {
			lines[i].Seq, lines[i].Last = uint64(i+1), uint64(i+1)
		}
		return lines
	}
	for _, c := range []struct {
		name  string
		plant planted
		want  tally
	}{
		{"right", func(l []wire.Line) []wire.Line { return l }, tally{}},
		{"lost", func(l []wire.Line) []wire.Line { return number(append(l[:70:70], l[71:]...)) }, tally{lost: 1}},
		{"twice", func(l []wire.Line) []wire.Line { return number(append(l[:70:70], l[69:]...)) }, tally{duplicate: 1}},
		{"hole", func(l []wire.Line) []wire.Line { l[50].Seq, l[50].Last = 52, 52; return l }, tally{wrong: 2}},
		{"gap", func(l []wire.Line) []wire.Line { l[50].Gap = true; return l }, tally{lost: 1, wrong: 1}},
		{"value", func(l []wire.Line) []wire.Line {
			l[50].Data = bytes.Replace(l[50].Data, []byte(`"v":`), []byte(`"v":1`), 1)
			return l
		}, tally{wrong: 1}},
		{"unknown", func(l []wire.Line) []wire.Line {
			l[50].Data = bytes.Replace(l[50].Data, []byte(`"ts":1`), []byte(`"ts":1000`), 1)
			return l
		}, tally{lost: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stream{sink: "changes", parse: parseReading, want: func(pass int64) *answer {
				if pass > 0 {
					return nil
				}
				return known.changes(0)
			}}
			s.begin(0)
			for _, l := range c.plant(changeLines(t, rec)) {
				if err := s.take(1, l, rec); err != nil {
					t.Fatal(err)
				}
			}
			if c.name == "lost" && s.missing() != 1 {
				t.Errorf("the live ledger misses %d, want 1", s.missing())
			}
			if s.pass == 0 {
				s.end()
			}
			got := tally{lost: s.total.lost, duplicate: s.total.duplicate, wrong: s.total.wrong}
			if c.name == "unknown" { // a time far ahead ends the pass: all behind it counts as lost
				if got.good() {
					t.Error("not found")
				}
				return
			}
			if got != c.want {
				t.Errorf("%+v, want %+v: %v", got, c.want, s.wrong)
			}
		})
	}
}

// changeLines are the right records of the changes sink.
func changeLines(t *testing.T, rec *recording) (lines []wire.Line) {
	t.Helper()
	band := deadband{last: map[string]float64{}}
	kept := map[string]bool{}
	for _, r := range band.pass(rec.accepted) {
		kept[r.id] = true
	}
	for i := range rec.accepted {
		r := &rec.accepted[i]
		if !kept[readingID(r.key(), r.TS)] {
			continue
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(len(lines) + 1)
		lines = append(lines, wire.Line{Seq: n, Last: n, Data: data})
	}
	return lines
}

// TestPasses: a later pass is the recording moved by whole windows, with sequence numbers of its own.
func TestPasses(t *testing.T) {
	rec, err := loadRecording("../testdata/nab-traffic")
	if err != nil {
		t.Fatal(err)
	}
	if rec.spanMs%windowMs != 0 || rec.firstMs%windowMs != 0 {
		t.Errorf("first %d and span %d are not whole windows", rec.firstMs, rec.spanMs)
	}
	for _, n := range []int{0, 1, len(rec.messages) - 1} {
		topic, payload, err := rec.at(3, n)
		if err != nil {
			t.Fatal(err)
		}
		var r reading
		if err := json.Unmarshal(payload, &r); err != nil {
			t.Fatal(err)
		}
		first := rec.messages[n].reading
		if pass, ts := rec.unshift(r.TS); pass != 3 || ts != first.TS || r.Seq != first.Seq+3*seqPerPass || topic != rec.messages[n].topic {
			t.Errorf("message %d of pass 3: %s %s is pass %d, %d", n, topic, payload, pass, ts)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if !strings.HasPrefix(fmt.Sprint(clock(61e9)), "01:01") {
		t.Error(clock(61e9))
	}
}
