package mqttsink

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestLimitsOfTheBroker: what it will never take becomes a gap alone, by name, whether it says so before or behind; the rest goes through. A sink that
// does not listen to the answers is found.
func TestLimitsOfTheBroker(t *testing.T) {
	for _, c := range []struct {
		name, extra string
		qos         int
		plant       planted
	}{
		{"announced", "max_packet_size 2000\n", 1, planted{}},
		{"announced, QoS 2", "max_packet_size 2000\n", 2, planted{}},
		{"refused", "message_size_limit 1500\n", 1, planted{}},
		{"refused, QoS 2", "message_size_limit 1500\n", 2, planted{}},
		{"refused, nobody listens", "message_size_limit 1500\n", 1, planted{deaf: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBroker(t, c.qos, c.extra)
			s := b.Connect(t, "a").(*Sink)
			s.plant = c.plant
			want := wanted(30)
			for _, i := range []int{4, 17, 18} {
				want[i] = `{"long":"` + strings.Repeat("x", 3000) + `"}`
			}
			q := uplinktest.NewQueue(1, 0)
			q.Add(want...)
			if err := uplinktest.Drive(t.Context(), q, s, one, 1, 30); err != nil {
				t.Fatal(err)
			}
			held, twice := dedup(b.consumer.arrivals(t, uplinktest.Stream()))
			if c.qos == 1 { // what was under way behind a refused one came before its gap
				slices.SortStableFunc(held, func(a, b uplinktest.Held) int { return cmp.Compare(a.Seq, b.Seq) })
			}
			err := uplinktest.Exact(held, want, func(seq uint64) bool { return seq == 5 || seq == 18 || seq == 19 })
			if c.plant.deaf {
				if err == nil {
					t.Fatal("the planted fault was not found")
				}
				return
			}
			if err != nil || twice > 0 && c.qos == 2 {
				t.Fatalf("%v, %d twice", err, twice)
			}
			for seq, reason := range q.Gaps() {
				if !strings.Contains(reason, "the broker takes 2000") && !strings.Contains(reason, "packet too large") {
					t.Errorf("sequence %d: %s", seq, reason)
				}
			}
		})
	}
}

// TestABrokerThatAnnouncesNoLimitTakesAll, with an int of 32 bits too.
func TestABrokerThatAnnouncesNoLimitTakesAll(t *testing.T) {
	var c connection
	if err := c.welcome(&Sink{}, []byte{0, 0, 0}); err != nil || !c.takes(1) || !c.takes(1<<28) {
		t.Errorf("no limit announced: %+v takes nothing, %v", c, err)
	}
	for most, want := range map[uint32]bool{999: false, 1000: true, 1 << 31: true, math.MaxUint32: true} {
		if c.limits.packetMax = most; c.takes(1000) != want {
			t.Errorf("limit of %d: takes 1000 bytes is not %v", most, want)
		}
	}
}

// TestAnnouncedLimits: what the broker says of itself in CONNACK is in the metrics of the sender, which the status shows.
func TestAnnouncedLimits(t *testing.T) {
	expiry := binary.BigEndian.AppendUint32([]byte{propSessionExpiry}, 3600)
	for _, c := range []struct {
		name, extra string
		qos         int
		properties  []byte
		want        []string
		opens       bool
	}{
		{"mosquitto's own", "max_inflight_messages 20\nmax_packet_size 2000\nmax_keepalive 60\n", 1, nil, []string{"20 messages under way", "packets up to 2000 bytes", "silent for 1m0s"}, true},
		{"a short session", "", 2, expiry, []string{"the session is kept for 1h0m0s where session_expiry is 168h0m0s"}, true},
		{"a short session that QoS 1 does not need", "", 1, expiry, nil, true},
		{"QoS 1 at most", "", 2, []byte{propMaximumQoS, 1}, []string{"QoS 1 at most"}, false},
		{"nothing retained", "", 1, []byte{propRetain, 0}, []string{"no retained messages"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBroker(t, c.qos, c.extra)
			k := &sick{properties: c.properties}
			b.config.Broker.URL = "mqtt://" + k.start(t, b.Addr)
			q := uplinktest.NewQueue(1, 0)
			q.Add(wanted(3)...)
			e := b.Connect(t, "a")
			defer e.Close()
			s, err := uplink.NewSender(uplink.SenderOptions{Config: uplink.Default(), Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, Queue: q, Endpoint: e,
				DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
			uplinktest.Must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), uplinktest.BadWait)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			for ctx.Err() == nil && (c.opens && q.Confirmed() < 3 || !c.opens && s.Metrics().LastError() == "") {
				time.Sleep(time.Millisecond)
			}
			text, told := s.Metrics().Announced(), s.Metrics().LastError()
			cancel()
			<-ended
			t.Log(text)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q lacks %q", text, want)
				}
			}
			if c.want == nil && strings.Contains(text, "session") {
				t.Errorf("told %q", text)
			}
			if c.opens != (told == "") || !c.opens && !strings.Contains(told, "the broker") {
				t.Errorf("the error is %q", told)
			}
		})
	}
}

// TestServerKeepAlive: a connection that was silent for as long as the broker bears is made anew before a result is sent on it.
func TestServerKeepAlive(t *testing.T) {
	b := startBroker(t, 1, "")
	k := &sick{properties: []byte{propServerKeepAlive, 0, 1}}
	b.config.Broker.URL = "mqtt://" + k.start(t, b.Addr)
	s := b.Connect(t, "a").(*Sink)
	defer s.Close()
	_, err := s.Open(t.Context(), uplinktest.Stream(), one, 1)
	uplinktest.Must(t, err)
	for i, wait := range []time.Duration{0, 1100 * time.Millisecond} {
		s.conn.spoke = s.conn.spoke.Add(-wait)
		n := uint64(i + 1)
		_, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, n, n))
		uplinktest.Must(t, err)
		if got := k.connections.Load(); got != int64(n) {
			t.Errorf("%d connections after a silence of %s, want %d", got, wait, n)
		}
	}
}

// TestNotAuthorized: a topic without the right waits, named in status, or becomes a dead letter; the control topics always wait. Passwords come from the file.
func TestNotAuthorized(t *testing.T) {
	dir := t.TempDir()
	acl := filepath.Join(dir, "acl")
	rules := "topic readwrite #\nuser gw\ntopic readwrite weir/#\ntopic write results/good\ntopic read #\nuser mute\ntopic write results/good\n"
	if err := os.WriteFile(acl, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBroker(t, 1, "acl_file "+acl+"\n")
	b.config.Topic, b.config.Broker.Username = "results/{k}", "gw"
	send := func(s *Sink) (uplink.Answer, error) {
		if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
			return uplink.Answer{}, err
		}
		batch := &uplink.Batch{Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, First: 1, Last: 3}
		for i, k := range []string{"good", "bad", "good"} {
			batch.Results = append(batch.Results, pipeline.Result{Seq: uint64(i + 1), Last: uint64(i + 1), Kind: pipeline.ResultData, Payload: fmt.Appendf(nil, `{"k":%q}`, k)})
		}
		return s.Send(t.Context(), batch)
	}
	s := b.Connect(t, "a").(*Sink)
	defer s.Close()
	if _, err := send(s); err == nil || !strings.Contains(err.Error(), "results/bad at ") || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("%v, want the topic and not authorized", err)
	}
	b.config.RejectUnauthorized = true
	r := b.Connect(t, "a").(*Sink)
	defer r.Close()
	if a, err := send(r); err != nil || len(a.Rejected) != 1 || a.Rejected[0].Seq != 2 || !strings.Contains(a.Rejected[0].Reason, "not authorized") {
		t.Errorf("%+v, %v", a, err)
	}
	b.config.Broker.Username = "mute"
	m := b.Connect(t, "a").(*Sink)
	defer m.Close()
	if _, err := send(m); err == nil || !strings.Contains(err.Error(), "weir/gw-1/p-1/out/progress") || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("%v, want the progress topic and not authorized", err)
	}
}

// TestForeignProgress: what somebody else keeps on the progress topic is refused by name and left.
func TestForeignProgress(t *testing.T) {
	b := startBroker(t, 1, "")
	s := b.Connect(t, "a").(*Sink)
	defer s.Close()
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
	m := publish{topic: []byte(s.progressTopic), retain: true, payload: []byte("hello")}
	if _, err := s.conn.net.Write(append(m.append(nil), packetPingreq<<4, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.await(nil, packetPingresp); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("%v, want %v", err, ErrForeign)
	}
}

// TestTopicOfRow: any value makes a topic of as many levels, or none.
func TestTopicOfRow(t *testing.T) {
	s := uplink.Stream{Gateway: "g/1", Pipeline: "p", Sink: "out"}
	p, err := parseTopic("a/{$gateway}/{k}-{n}")
	if err != nil {
		t.Fatal(err)
	}
	bound := p.bind(s)
	for row, want := range map[string]string{
		`{"k":"x","n":1}`: "a/g%2F1/x-1", `{"n":true,"k":"a/b+c#d%e"}`: "a/g%2F1/a%2Fb%2Bc%23d%25e-true", `{"k":"é\u0000","n":-1.5}`: "a/g%2F1/é%00--1.5",
		`{"k":"x"}`: "no value", `{"k":"","n":1}`: "no value", `{"k":null,"n":1}`: "no value", `{"k":[1],"n":1}`: "single value", `[]`: "no JSON object",
	} {
		got, err := bound.append(nil, []byte(row))
		if err == nil && string(got) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", row, got, err, want)
		}
	}
	first, _ := parseTopic("{k}")
	if got, err := first.bind(s).append(nil, []byte(`{"k":"$SYS"}`)); err != nil || string(got) != "%24SYS" {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzReadPacket(f *testing.F) {
	m := publish{topic: []byte("t"), id: 7, qos: 1, properties: appendText(appendText([]byte{propUser}, "a"), "b"), payload: []byte("x")}
	f.Add(m.append(nil))
	f.Add([]byte{packetPuback << 4, 8, 0, 1, 0x97, 4, propReasonString, 0, 1, 'q'})
	f.Add([]byte{packetConnack << 4, 6, 1, 0, 3, propReceiveMaximum, 0, 20})
	f.Add([]byte{packetPublish << 4, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := readPacket(bufio.NewReader(bytes.NewReader(data)), nil)
		if err != nil {
			return
		}
		_, _, _ = readPublish(p)
		if a, err := readAnswer(p.body); err == nil && len(p.body) == 2 && a.reason != 0 {
			t.Fatal("a reason without its byte")
		}
		s, c := &Sink{config: Default()}, &connection{}
		if p.kind == packetConnack && len(p.body) >= 2 {
			_ = c.welcome(s, p.body)
		}
	})
}

func FuzzDecodeProgress(f *testing.F) {
	s := uplinktest.Stream()
	p := progress{released: 5}
	p.Take(one, 1, "board")
	p.Seq = 7
	f.Add(p.encode(s))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodeProgress(data, s)
		if err != nil {
			return
		}
		again, err := decodeProgress(p.encode(s), s)
		if err != nil || again != p {
			t.Fatalf("%+v became %+v: %v", p, again, err)
		}
	})
}

// TestPacketCut: a message cut anywhere is no message.
func TestPacketCut(t *testing.T) {
	whole := (&publish{topic: []byte("topic"), payload: []byte("payload")}).append(nil)
	for n := range whole {
		if _, _, err := readPacket(bufio.NewReader(bytes.NewReader(whole[:n])), nil); err == nil {
			t.Errorf("cut at %d", n)
		}
	}
	p, _, err := readPacket(bufio.NewReader(bytes.NewReader(whole)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if topic, payload, err := readPublish(p); err != nil || string(topic) != "topic" || string(payload) != "payload" {
		t.Errorf("%s %s %v", topic, payload, err)
	}
}
