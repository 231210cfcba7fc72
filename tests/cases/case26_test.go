package cases

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirstream/weir/agent/api"
)

// temperature is a row of the case's pipeline.
type temperature struct {
	Type  string
	Seq   *int
	Stale bool
	Temp  *float64
}

// checkSparkplug compares the rows with the expectations of the case. dead are the payloads of its dead letters.
func checkSparkplug(t *testing.T, rows []string) {
	t.Helper()
	var all []temperature
	for _, r := range rows {
		all = append(all, decode[temperature](t, r))
	}
	if want := len(lines(t, "26")) - 1; len(all) != want {
		t.Fatalf("%d rows, want one for each message but the cut one: %d", len(all), want)
	}
	if first := all[0]; first.Type != "NBIRTH" || *first.Temp != expect[float64](t, "26", "accepted_temp_first") {
		t.Errorf("first row %+v", first)
	}
	var stale, reborn []float64
	for i, r := range all {
		switch {
		case r.Stale:
			stale = append(stale, *r.Temp)
		case i > 0 && i <= 257 && *r.Temp != float64(20+i):
			t.Errorf("row %d before the hole: %+v", i, r)
		case i > 257 && r.Temp != nil:
			reborn = append(reborn, *r.Temp)
		}
	}
	if !slices.Equal(stale, []float64{99, 100}) {
		t.Errorf("stale are %v, want those between the hole and the birth", stale)
	}
	if want := expect[[]float64](t, "26", "after_rebirth"); !slices.Equal(reborn, want) {
		t.Errorf("after the birth %v, want %v", reborn, want)
	}
	if last := all[len(all)-1]; last.Temp != nil || last.Stale {
		t.Errorf("is_null gives %+v", last)
	}
}

func TestCase26_SparkplugRows(t *testing.T) {
	o := replay(t, "26", "26")
	checkSparkplug(t, o.sinks["rows"])
	messages := lines(t, "26")
	cut := messages[len(messages)-1]
	if len(o.dead) != 1 || o.dead[0].Reason != "decode" || o.dead[0].Position != len(messages) || string(o.dead[0].Raw)+o.dead[0].Payload != string(cut.bytes()) {
		t.Errorf("dead letters %+v, want the cut payload %s", o.dead, base64.StdEncoding.EncodeToString(cut.bytes()))
	}
	births := 0
	for _, l := range messages {
		if strings.Contains(l.Topic, "/NBIRTH/") {
			births++
		}
	}
	if got, want := len(messages)-births, expect[int](t, "26", "ndata_count_in"); got != want {
		t.Errorf("the recording has %d NDATA, want %d", got, want)
	}
}

// commands collects what the agent publishes.
type commands struct {
	mu  sync.Mutex
	all []*packets.PublishPacket
}

func (c *commands) see(id string, p packets.ControlPacket) bool {
	if m, is := p.(*packets.PublishPacket); is && id == client {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, m)
	}
	return true
}

func (c *commands) seen() []*packets.PublishPacket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// TestCase26_OneRebirthRequest runs the case against the agent: the broker sees one node command for the hole, none for the wrap and the cut payload,
// and none again when a killed agent reads the journal anew.
func TestCase26_OneRebirthRequest(t *testing.T) {
	s := newSite(t, `
sources:
  nodes:
    mqtt: {broker: local, topic: "spBv1.0/G1/+/E1", qos: 0}
    decode: sparkplug
    time: {field: sparkplug.timestamp, unit: ms}
pipelines:
  temps:
    start: earliest
    checkpoint: {interval: 1h}    # a restart reads everything again
    steps:
      - {uid: reports, from: nodes, filter: 'sparkplug.type != "NCMD"'}   # the filter of the source matches weir's own command as well
      - {uid: temp, from: reports, select: {type: sparkplug.type, seq: sparkplug.seq, stale: sparkplug.stale, temp: temp}}
    sinks:
      - {uid: rows, from: temp, commit: immediate, file: {path: rows.jsonl}}
  again:                          # a second pipeline that sees the same hole
    start: earliest
    steps:
      - {uid: temp, from: nodes, filter: "sparkplug.stale"}
    sinks:
      - {uid: stale, from: temp, commit: immediate, file: {path: stale.jsonl}}
`)
	var seen commands
	s.broker.OnPacket(seen.see)
	s.startReady()
	messages := lines(t, "26")
	upTo := func(n int) {
		t.Helper()
		s.eventually("all messages are worked in and their results delivered", func(st api.Status) bool {
			for _, p := range st.Pipelines {
				if len(p.Sources) != 1 || p.Sources[0].Received != uint64(n) || p.Lag > 0 {
					return false
				}
				for _, k := range p.Sinks {
					if k.Pending > 0 && k.UID != "$dead" { // dead letters wait for the checkpoint
						return false
					}
				}
			}
			return true
		})
	}
	hole := slices.IndexFunc(messages, func(l line) bool { return l.N == 258 })
	for _, l := range messages[:hole] {
		s.publish(l)
	}
	upTo(hole)
	if got := seen.seen(); len(got) > 0 {
		t.Fatalf("asked for a rebirth at no hole: %v", got)
	}
	for _, l := range messages[hole : hole+2] {
		s.publish(l)
	}
	own := 1 // the command, which comes back
	upTo(hole + 2 + own)
	s.eventually("the request has left", func(st api.Status) bool { return st.Sessions[0].Counters["rebirth_requests"] == 1 })
	for _, l := range messages[hole+2:] {
		s.publish(l)
	}
	upTo(len(messages) + own)
	checkSparkplug(t, s.sinkData("rows.jsonl"))
	s.agent.Kill()
	s.startReady()
	upTo(len(messages) + own)
	checkSparkplug(t, s.sinkData("rows.jsonl"))
	time.Sleep(2 * time.Second) // longer than a request waits for its turn
	got := seen.seen()
	if len(got) != 1 || got[0].TopicName != "spBv1.0/G1/NCMD/E1" || got[0].Qos != 0 || got[0].Retain {
		t.Fatalf("the broker saw %v, want one command to E1", got)
	}
	if !strings.Contains(string(got[0].Payload), "Node Control/Rebirth") {
		t.Errorf("the command holds %x", got[0].Payload)
	}
	if stale := s.sinkData("stale.jsonl"); len(stale) != 2 {
		t.Errorf("stale rows %v", stale)
	}
}
