package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
)

// rubbish reads everything below t/a as JSON in one pipeline and as CBOR in another.
const rubbish = `
  c:
    mqtt: {broker: rig, topic: "t/c/#", qos: QOS}
    decode: cbor
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  json:
    start: earliest
    checkpoint: {interval: 300ms}
    steps:
      - {uid: s, from: a, select: [id, k, ts, v]}
    sinks:
      - {uid: now, from: s, commit: immediate, http: {url: "URL"}}
  cbor:
    start: earliest
    checkpoint: {interval: 300ms}
    steps:
      - {uid: s, from: c, select: [id, k, ts, v]}
    sinks:
      - {uid: cbor, from: s, http: {url: "URL"}}
`

// rubbishRSSMax is far above what the agent takes and far below what a decoder bomb would.
const rubbishRSSMax = 160 << 20

// junk is what devices, attackers and broken firmware send.
func junk(r *rand.Rand) []byte {
	random := make([]byte, r.IntN(300)+1)
	for i := range random {
		random[i] = byte(r.UintN(256))
	}
	switch r.IntN(9) {
	case 0:
		return random
	case 1:
		return bytes.Repeat([]byte("["), 10_000)
	case 2:
		return []byte(strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000))
	case 3:
		return []byte(`{"id":1e999,"ts":1}`)
	case 4:
		return []byte(`{"id":1,"id":2,"ts":1}`)
	case 5:
		return []byte("{\"k\":\"\x1b]0;owned\x07<script>\",\"ts\":\"x\"}")
	case 6:
		return []byte{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01} // CBOR: an array of 2^63 elements
	case 7:
		return []byte{0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x61, 'a', 1} // CBOR: a map of 2^32 pairs
	}
	return append([]byte(`{"id":`), random...)
}

// TestRubbishHarmsNobody: good messages between thousands of bad ones arrive once; each bad one is a dead letter; memory stays small; an
// agent that is killed in between goes on.
func TestRubbishHarmsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	const good, bad = 400, 3000
	s := scenario{qos: 1, messages: good, config: rubbish, streams: 2, patience: rig.Patience}
	random := rand.New(rand.NewPCG(7, 7))
	st := newStage(t, &s, random)
	next := 0
	for i := range bad {
		topic := "t/a/d"
		if i%3 == 0 {
			topic = "t/c/" + strings.Repeat("x/", random.IntN(150)) + "y"
		}
		st.publish(topic, junk(random))
		if i*good/bad >= next && next < good {
			m := messageOf(next)
			payload, err := json.Marshal(m)
			st.must(err)
			st.publish("t/a/"+m.K, payload)
			next++
		}
		if i == bad/2 {
			st.agent.Kill()
			st.startAgent()
		}
	}
	for ; next < good; next++ {
		payload, err := json.Marshal(messageOf(next))
		st.must(err)
		st.publish("t/a/d", payload)
	}
	st.settle()
	if !st.waitIdle(&s) {
		st.dump()
		t.Fatal("the agent did not become idle")
	}
	st.checkDead(bad)
	if peak := peakRSS(t, st.agent.PID()); peak > rubbishRSSMax {
		t.Errorf("the agent took %d MiB at its peak", peak>>20)
	}
	verdicts, problems := st.finish(&s)
	for _, p := range problems {
		t.Error(p)
	}
	for _, v := range verdicts {
		t.Log(v)
		if v.Stream == "now" && !v.OK() {
			t.Errorf("%s is not exactly once", v.Stream)
		}
	}
}

// checkDead compares the ledger and `weir deadletter ls`, which must not let a payload act on the terminal.
func (st *stage) checkDead(want uint64) {
	st.t.Helper()
	config := filepath.Join(st.dir, "weir.yaml")
	out, err := exec.Command(binary, "status", "-o", "json", "-c", config).Output()
	st.must(err)
	var status struct {
		Pipelines []struct {
			Sources []struct {
				Received, Split, Rows, Tombstones, Dead uint64
			} `json:"sources"`
			Steps []struct{ Dead uint64 } `json:"steps"`
		} `json:"pipelines"`
	}
	st.must(json.Unmarshal(out, &status))
	dead := uint64(0)
	for _, p := range status.Pipelines {
		for _, x := range p.Sources {
			dead += x.Dead + x.Tombstones
			if x.Received+x.Split != x.Rows+x.Tombstones+x.Dead {
				st.t.Errorf("the ledger is not balanced: %+v", x)
			}
		}
		for _, x := range p.Steps {
			dead += x.Dead
		}
	}
	if dead != want {
		st.t.Errorf("%d dead letters, want %d", dead, want)
	}
	list, err := exec.Command(binary, "deadletter", "ls", "json", "--limit", "1000", "-c", config).Output()
	st.must(err)
	if bytes.ContainsRune(list, 0x1b) || bytes.ContainsRune(list, 0x07) {
		st.t.Error("weir deadletter ls prints control characters of a payload")
	}
	if n := bytes.Count(list, []byte("\n")); n < 900 {
		st.t.Errorf("weir deadletter ls prints %d lines", n)
	}
}

// peakRSS is VmHWM of a process.
func peakRSS(t *testing.T, pid int) (bytesMax int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscanf(rest, "%d", &bytesMax)
		}
	}
	return bytesMax << 10
}
