package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/topic"
	"github.com/weirstream/weir/tests/rig"
)

func TestQoS0IsJournaled(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	a := startAgent(t, newMemJournal(), testConfig("mqtt://"+b.Addr(), 0), faults{})
	a.waitReady()
	publish(b, 1, "m1", "m2") // granted QoS 0, so sent at QoS 0
	a.waitMessages(2)
	if n := a.session.Stats().QoS0; n != 2 {
		t.Errorf("%d messages counted as at most once, want 2", n)
	}
}

func TestSeveralSourcesOnOneSession(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	c := testConfig("mqtt://"+b.Addr(), 1, "a/#", "b/+", "$share/g/c/#")
	c.Sources[1].QoS = 2
	a := startAgent(t, newMemJournal(), c, faults{})
	a.waitReady()
	for _, topic := range []string{"a/1", "b/1", "c/1"} {
		b.Publish(topic, 2, false, []byte(topic))
	}
	settled(t, b, testClient)
	got := make(map[string]string)
	for _, e := range a.journal.all() {
		if e.Kind == pipeline.EntryMessage {
			got[string(e.Topic)] = fmt.Sprint(e.Source, " ", e.QoS, " ", e.Session)
		}
	}
	want := map[string]string{"a/1": "a/# 1 plant", "b/1": "b/+ 2 plant", "c/1": "$share/g/c/# 1 plant"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRetained(t *testing.T) {
	for _, c := range []struct {
		policy        Retained
		first, second int // records after the first and the second start of the agent
	}{{RetainedIgnore, 0, 0}, {RetainedFresh, 1, 1}, {RetainedInclude, 1, 2}} {
		t.Run(string(c.policy), func(t *testing.T) {
			b := newBroker(t, rig.BrokerConfig{})
			b.Publish("t/1", 1, true, []byte("old"))
			config := testConfig("mqtt://"+b.Addr(), 1)
			config.Sources[0].Retained = c.policy
			j := newMemJournal()
			for _, want := range []int{c.first, c.second} {
				a := startAgent(t, j, config, faults{})
				a.waitReady()
				eventually(t, "retained message came", func() bool { return a.session.Stats().Received == 1 })
				settled(t, b, testClient)
				if n := countKind(a.journal.all(), pipeline.EntryMessage); n != want {
					t.Errorf("%d records, want %d", n, want)
				}
				a.stop()
				j = j.reborn(0)
			}
		})
	}
}

func TestJournalFull(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{KeepDelivered: true})
	a := startAgent(t, newMemJournal(), testConfig("mqtt://"+b.Addr(), 1), faults{})
	a.waitReady()
	publish(b, 1, "m1")
	settled(t, b, testClient)
	a.journal.mu.Lock()
	a.journal.full = true // Append finds out first
	a.journal.mu.Unlock()
	publish(b, 1, "m2")
	eventually(t, "clean disconnect", func() bool { return a.session.Stats().Full >= 1 && !b.Session(testClient).Connected })
	if i := b.Session(testClient); !i.Known || len(i.Delivered) != 1 {
		t.Errorf("broker: %+v", i)
	}
	a.journal.setFull(true)
	publish(b, 1, "m3")
	a.journal.setFull(false)
	a.waitMessages(3)
	settled(t, b, testClient)
	if wrong := verdict([]string{"m1", "m2", "m3"}, payloadsOf(a.journal.all())); wrong != "" {
		t.Error(wrong)
	}
}

func TestJournalFailed(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{KeepDelivered: true})
	a := startAgent(t, newMemJournal(), testConfig("mqtt://"+b.Addr(), 1), faults{})
	a.waitReady()
	a.journal.hold(true)
	publish(b, 1, "m1")
	a.waitMessages(1)
	a.journal.die(pipeline.ErrJournalFailed)
	if err := <-a.done; !errors.Is(err, pipeline.ErrJournalFailed) {
		t.Errorf("Run returned %v", err)
	}
	a.done <- nil // for kill
	if n := len(b.Session(testClient).Delivered); n != 0 {
		t.Errorf("%d messages acknowledged by a journal that failed", n)
	}
}

func TestStopCommitsAndAcknowledges(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{KeepDelivered: true})
	a := startAgent(t, newMemJournal(), testConfig("mqtt://"+b.Addr(), 1), faults{})
	a.waitReady()
	publish(b, 1, "m1", "m2", "m3")
	a.waitMessages(3)
	a.stop()
	eventually(t, "all acknowledged, session kept", func() bool {
		i := b.Session(testClient)
		return i.Known && !i.Connected && len(i.Delivered) == 3
	})
}

func TestLimits(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	c := testConfig("mqtt://"+b.Addr(), 1)
	c.Sources[0].MaxBytesPerDay = 5
	c.Sources[0].MaxRate = 200
	a := startAgent(t, newMemJournal(), c, faults{})
	a.waitReady()
	publish(b, 1, "m1", "m2", "m3", "m4")
	settled(t, b, testClient)
	if m, s := countKind(a.journal.all(), pipeline.EntryMessage), countKind(a.journal.all(), pipeline.EntryStub); m != 2 || s != 2 {
		t.Errorf("%d messages and %d stubs, want 2 and 2", m, s)
	}

	now := time.Unix(0, 0)
	l := newLimits(SourceConfig{MaxRate: 2, MaxBytesPerDay: 10}, now)
	for i, want := range []time.Duration{0, 0, 500 * time.Millisecond, time.Second} {
		if w := l.take(now); w != want {
			t.Errorf("record %d waits %v, want %v", i, w, want)
		}
	}
	if !l.spend(10, now) || l.spend(1, now.Add(day-1)) || !l.spend(10, now.Add(day)) {
		t.Error("quota of a day")
	}
}

// TestCarryOutlivesTrim: a duplicate is known though its record was recycled and the process started anew.
func TestCarryOutlivesTrim(t *testing.T) {
	for _, qos := range []byte{1, 2} {
		b := newBroker(t, rig.BrokerConfig{})
		j := newMemJournal()
		c := testConfig("mqtt://"+b.Addr(), qos)
		a := startAgent(t, j, c, faults{})
		a.waitReady()
		b.OnPacket(ignoreAcks)
		publish(b, qos, "m1", "m2", "m3")
		a.waitMessages(3)
		for range 3 { // carried entries are carried again
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := j.trim(a.session, j.Durable()+1); err != nil {
				t.Fatal(err)
			}
		}
		if n := countKind(j.all(), pipeline.EntryMessage); n != 0 {
			t.Fatalf("%d messages left after the trim", n)
		}
		a.kill()
		eventually(t, "broker saw the end", func() bool { return !b.Session(testClient).Connected })
		b.OnPacket(nil)
		a = startAgent(t, j.reborn(0), c, faults{})
		a.waitReady()
		settled(t, b, testClient)
		if n := countKind(a.journal.all(), pipeline.EntryMessage); n != 0 {
			t.Errorf("QoS %d: %d messages ingested twice", qos, n)
		}
		if s := a.session.Stats(); s.SessionLost != 0 {
			t.Errorf("QoS %d: the granted filters were not carried", qos)
		}
	}
}

func TestQueueHint(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{MaxQueued: 5})
	c := testConfig("mqtt://"+b.Addr(), 1)
	c.QueueHint = 5
	j := newMemJournal()
	a := startAgent(t, j, c, faults{})
	a.waitReady()
	a.stop()
	eventually(t, "broker saw the end", func() bool { return !b.Session(testClient).Connected })
	publish(b, 1, "m1", "m2", "m3", "m4", "m5", "m6")
	a = startAgent(t, j.reborn(0), c, faults{})
	a.waitMessages(5)
	hint := burst{outage: time.Minute}
	tp := a.session.current.Load()
	a.session.look(tp, &hint)
	a.session.look(tp, &hint)
	if a.session.Stats().QueueHints == 0 {
		t.Error("no warning though just the broker's queue came")
	}
}

// TestWatchRests: a connection on which nothing comes is looked at seldom, but in time to find that the broker is silent; with a message it is looked at as before.
func TestWatchRests(t *testing.T) {
	for _, c := range []struct {
		quiet      int
		ping, want time.Duration
	}{
		{0, 30 * time.Second, watchEvery},
		{watchQuiet - 1, 30 * time.Second, watchEvery},
		{watchQuiet, 30 * time.Second, watchRest},
		{watchQuiet, 4 * time.Second, time.Second},
		{watchQuiet, time.Second, watchEvery},
	} {
		if got := watchWait(c.quiet, c.ping); got != c.want {
			t.Errorf("%d looks, ping timeout %s: %s, want %s", c.quiet, c.ping, got, c.want)
		}
	}
	s, tp := &Session{}, &tap{}
	b := burst{}
	for i := range 3 {
		if n := s.look(tp, &b); n != i+1 {
			t.Errorf("look %d counts %d", i+1, n)
		}
	}
	tp.arrived.Add(1)
	if n := s.look(tp, &b); n != 0 {
		t.Errorf("a message came, and %d quiet looks are counted", n)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*SessionConfig){
		"client_id":       func(c *SessionConfig) { c.ClientID = "" },
		"allow_plaintext": func(c *SessionConfig) { c.URL = "mqtt://broker.example:1883" },
		"scheme":          func(c *SessionConfig) { c.URL = "http://127.0.0.1" },
		"overlaps": func(c *SessionConfig) {
			c.Sources = append(c.Sources, SourceConfig{Name: "x", Filter: "t/+", Retained: RetainedIgnore, MaxMessage: 1})
		},
		"dedup_window": func(c *SessionConfig) { c.DedupWindow = 40000 },
		"username":     func(c *SessionConfig) { c.PasswordFile = "p" },
		"qos":          func(c *SessionConfig) { c.Sources[0].QoS = 3 },
	} {
		c := testConfig("mqtt://127.0.0.1:1", 1)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConfigRefusesFilter: what a filter may be is pipeline/topic's matter.
func TestConfigRefusesFilter(t *testing.T) {
	c := testConfig("mqtt://127.0.0.1:1", 1, "a/b+")
	if err := c.Validate(); !errors.Is(err, topic.ErrFilter) || !strings.Contains(err.Error(), `"a/b+"`) {
		t.Errorf("%v", err)
	}
}

func TestMachine(t *testing.T) {
	run := func(m machine, events ...event) (machine, action) {
		var do action
		for _, e := range events {
			m, do = next(m, e)
		}
		return m, do
	}
	ready, _ := run(machine{}, evConnect, evFresh, evGranted)
	if ready.phase != phaseReady || !ready.known {
		t.Fatalf("first connect: %+v", ready)
	}
	for _, c := range []struct {
		name   string
		from   machine
		events []event
		phase  phase
		do     action
	}{
		{"line drop", ready, []event{evLost, evConnect, evPresent}, phaseReady, 0},
		{"CONNECT without answer", ready, []event{evLost, evConnect, evLost, evConnect, evPresent}, phaseSweeping, actPing},
		{"session gone", ready, []event{evLost, evConnect, evFresh}, phaseSubscribing, actVoid | actSubscribe},
		{"new process", machine{granted: true}, []event{evConnect, evPresent}, phaseSweeping, actPing},
		{"swept", machine{granted: true}, []event{evConnect, evPresent, evPong}, phaseSubscribing, actForget | actSubscribe},
		{"lost before SUBACK", machine{}, []event{evConnect, evFresh, evLost, evConnect, evPresent}, phaseSweeping, actPing},
		{"refused, line drop", ready, []event{evLost, evConnect, evFresh, evRefused, evLost, evConnect, evPresent}, phaseSweeping, actPing},
		{"paho's own ping", ready, []event{evPong}, phaseReady, 0},
	} {
		if m, do := run(c.from, c.events...); m.phase != c.phase || do != c.do {
			t.Errorf("%s: %v, action %b; want %v, %b", c.name, m.phase, do, c.phase, c.do)
		}
	}
}
