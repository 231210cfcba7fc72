package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

const configText = `
state_dir: /var/lib/weir
security: {file_root: /var/lib/files}
brokers: {b: {url: "tcp://127.0.0.1:1"}}
sources:
  s:
    mqtt: {broker: b, topic: "d/{device}", qos: 1}
    decode: json
    fields: {ts: int, v: float}
    time: {field: ts, unit: ms}
pipelines:
  p:
    checkpoint: {interval: 10s}
    steps:
      - {uid: mean, from: s, by: [device], window: {tumbling: 1m}, aggregate: {n: count(), mean: avg(v)}}
      - {uid: hot, from: s, by: [device], alarm: {value: v, raise: "> 8", hold: 30s}}
    sinks:
      - {uid: means, from: mean, file: {path: means.jsonl}}
      - {uid: alarms, from: hot, file: {path: alarms.jsonl}}
`

// open writes a test file with the given cases beside the config.
func open(t *testing.T, cases string) (*File, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(configText), 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "weir.test.yaml")
	if err := os.WriteFile(name, []byte("config: weir.yaml\ncases:\n"+cases), 0o644); err != nil {
		t.Fatal(err)
	}
	return Open(name)
}

func run(t *testing.T, cases string) []Outcome {
	t.Helper()
	f, err := open(t, cases)
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// three messages; the alarm of the second comes 30 s later, by the clock alone.
const input = `
    input:
      - {at: 0s, topic: d/a, payload: {ts: 1767225600000, v: 1}}
      - {at: 12s, topic: d/a, payload: {ts: 1767225612000, v: 9}}
      - {at: 61s, topic: d/a, payload: {ts: 1767225661000, v: 9}}
`

func TestPasses(t *testing.T) {
	o := run(t, "  - name: n"+input+`
    crash_at: [0s, 11s, 12s, 20s, 42s, 50s, 61s]
    restart_at: [15s, 43s]
    expect:
      means: [{device: a, window_start: 1767225600000, n: 2, mean: 5}, {n: 1}]
      alarms: [{device: a, transition: RAISE, value: 9}]
`)[0]
	if !o.Passed || o.Messages != 3 || o.Results != 3 || o.Crashes != 7 || o.Restarts != 2 {
		t.Errorf("%+v", o)
	}
}

// TestFails: every way in which results can differ from what is expected is seen.
func TestFails(t *testing.T) {
	for _, c := range []struct{ expect, reason string }{
		{"means: [{n: 2}]", "2 results, expected 1; the first too many: "},
		{"means: [{n: 2}, {n: 1}, {n: 1}]", `2 results, expected 3; the first that is missing: {"n":1}`},
		{"means: [{n: 3}, {n: 1}]", "result 1: n is 2, expected 3"},
		{"means: [{mean: 5.00001}, {n: 1}]", "mean is 5, expected 5.00001"},
		{"means: [{meen: 5}, {n: 1}]", `no column "meen"; did you mean "mean"?`},
		{`means: [{n: "2"}, {n: 1}]`, `n is 2, expected "2"`},
		{"means: {count: 3}", "2 results, expected 3"},
		{"alarms: []", "1 results, expected 0"},
	} {
		o := run(t, "  - name: n"+input+"    expect:\n      "+c.expect+"\n")[0]
		if o.Passed || !strings.Contains(o.Reason, c.reason) {
			t.Errorf("%s: %+v", c.expect, o)
		}
	}
	dead := run(t, "  - input: [{at: 0s, topic: d/a, payload: rubbish}]\n")[0]
	if dead.Passed || !strings.Contains(dead.Reason, "1 dead letters, expected 0") {
		t.Errorf("%+v", dead)
	}
	if o := run(t, "  - input: [{at: 0s, topic: d/a, payload: rubbish}]\n    dead_letters: 1\n")[0]; !o.Passed {
		t.Errorf("%+v", o)
	}
}

// TestDrain: without it the last window stays open.
func TestDrain(t *testing.T) {
	o := run(t, "  - drain: false"+input+"    crash_at: [30s]\n    expect: {means: [{n: 2}]}\n")[0]
	if !o.Passed {
		t.Errorf("%+v", o)
	}
}

// forgetful is a checkpoint that has lost the tables of a step.
type forgetful struct {
	pipeline.StateSource
	uid string
}

func (f forgetful) Entries(uid, name string, each func(key, sub, val []byte) error) (state.Spec, bool, error) {
	if uid == f.uid {
		return state.Spec{}, false, nil
	}
	return f.StateSource.Entries(uid, name, each)
}

// TestLostStateIsSeen: planted: a restore that forgets a step's state. The crash must show in the results.
func TestLostStateIsSeen(t *testing.T) {
	for uid, sink := range map[string]string{"mean": "means", "hot": "alarms"} {
		f, err := open(t, "  - name: n"+input+"    crash_at: [30s]\n")
		if err != nil {
			t.Fatal(err)
		}
		f.spoil = func(s pipeline.StateSource) pipeline.StateSource { return forgetful{s, uid} }
		all, err := f.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if all[0].Passed || !strings.Contains(all[0].Reason, "sink "+sink) {
			t.Errorf("%s: %+v", uid, all[0])
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ cases, reason string }{
		{"  - {name: n}\n", "nothing arrives"},
		{"  - {input: [{at: 0s, topic: d/a, payload: {}}], expect: {mean: []}}\n", `sink "mean"; the pipeline has [means alarms]; did you mean "means"?`},
		{"  - {input: [{at: 5s, topic: d/a, payload: {}}, {at: 1s}]}\n", "input 2 arrives at 1s, before the one above it"},
		{"  - {input: [{at: 5s, topic: d/+, payload: {}}]}\n", "is a filter"},
		{"  - {input: [{at: 5, topic: d/a, payload: {}}]}\n", "time \"5\""},
		{"  - {input: [{at: 0s, topc: d/a}]}\n", "topc"},
		{"  - {recording: none.jsonl}\n", "none.jsonl"},
		{"  - {input: [{at: 0s, topic: d/a, payload: {}}], expect: {means: {counts: 1}}}\n", "counts"},
	} {
		if _, err := open(t, c.cases); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.cases, err)
		}
	}
	if o := run(t, "  - {input: [{at: 0s, topic: e/a, payload: {}}]}\n")[0]; o.Passed || !strings.Contains(o.Reason, `no source of the pipeline reads the topic "e/a"`) {
		t.Errorf("%+v", o)
	}
}

func TestNumbersAreExact(t *testing.T) {
	for _, c := range []struct {
		want, got string
		equal     bool
	}{
		{"9007199254740993", "9007199254740993", true}, {"9007199254740993", "9007199254740992", false},
		{"18446744073709551615", "18446744073709551615", true}, {"1", "1.0", true}, {"0.1", "0.10000000000000001", true},
		{"0.1", "0.1001", false}, {"1000000000000", "1000000000001", false},
	} {
		if equalNumbers(c.want, c.got) != c.equal {
			t.Errorf("%s and %s: %v", c.want, c.got, !c.equal)
		}
	}
}
