package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	_ "github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/tests/rig"
)

var weir string // the program under test, built by TestMain

func TestMain(m *testing.M) { os.Exit(rig.RunWithWeir(m, &weir)) }

// line is one line of a case: a message or a step.
type line struct {
	N       int    `json:"n"`
	AtMs    int64  `json:"at_ms"`
	Topic   string `json:"topic"`
	QoS     byte   `json:"qos"`
	Retain  bool   `json:"retain"`
	Dup     bool   `json:"dup"`
	Payload string `json:"payload"`
	Base64  []byte `json:"payload_b64"`
	Gen     struct {
		Field, Char string
		Total       int `json:"total_bytes"`
	} `json:"payload_gen"`

	Op      string
	Agent   string
	Name    string
	What    string
	Hex     string
	Filters []string
	Script  []string
}

func (l line) bytes() []byte {
	switch {
	case l.Base64 != nil:
		return l.Base64
	case l.Gen.Total > 0:
		frame := fmt.Sprintf("{%q:%q}", l.Gen.Field, "")
		return []byte(strings.TrimSuffix(frame, "\"}") + strings.Repeat(l.Gen.Char, l.Gen.Total-len(frame)) + "\"}")
	}
	return []byte(l.Payload)
}

func lines(t *testing.T, number string) []line {
	t.Helper()
	return rig.JSONLines[line](t, "testdata/"+number+".jsonl")
}

// expect reads one member of the right result.
func expect[T any](t *testing.T, number, member string) (v T) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + number + ".expect.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[member], &v); err != nil {
		t.Fatalf("%s: %s: %v", number, member, err)
	}
	return v
}

// outcome is what `weir replay` gave.
type outcome struct {
	sinks  map[string][]string // records as they were printed
	dead   []deadLetter
	counts struct {
		Sources []struct {
			Name                                    string
			Received, Rows, Tombstones, Dead, Stubs int
		}
		Steps []struct {
			UID                              string
			In, Emitted, Late, Dropped, Dead int
		}
		Sinks map[string]int
	}
}

type deadLetter struct {
	Step, Reason, Detail string
	Position             int
	Topic, Payload       string
	Raw                  []byte `json:"payload_b64"`
}

// replay runs the config of a case over its recording, as a user does.
func replay(t *testing.T, config, input string) (o outcome) {
	t.Helper()
	cmd := exec.Command(weir, "replay", "--pipeline", "testdata/"+config+".yaml", "--input", "testdata/"+input+".jsonl")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("replay: %v\n%s", err, &stderr)
	}
	for l := range strings.Lines(stderr.String()) {
		if text, is := strings.CutPrefix(l, "dead letter "); is {
			_, text, _ = strings.Cut(text, ": ")
			o.dead = append(o.dead, decode[deadLetter](t, text))
			continue
		}
		if err := json.Unmarshal([]byte(l), &o.counts); err != nil {
			t.Fatalf("standard error has %q: %v", l, err)
		}
	}
	o.sinks = map[string][]string{}
	for l := range strings.Lines(string(out)) {
		var r struct {
			Sink   string
			Record json.RawMessage
		}
		if len(o.counts.Sinks) == 1 {
			for r.Sink = range o.counts.Sinks {
			}
			r.Record = json.RawMessage(strings.TrimSuffix(l, "\n"))
		} else {
			r = decode[struct {
				Sink   string
				Record json.RawMessage
			}](t, l)
		}
		o.sinks[r.Sink] = append(o.sinks[r.Sink], string(r.Record))
	}
	return o
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return v
}

// deadLines are the numbers of the refused messages, for cases of one source that sees every line.
func (o *outcome) deadLines() (all []int) {
	for _, d := range o.dead {
		all = append(all, d.Position-1)
	}
	return all
}

// says demands that the documentation tells a choice.
func says(t *testing.T, file, text string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(b)), " "), text) {
		t.Errorf("docs/%s does not say %q", file, text)
	}
}
