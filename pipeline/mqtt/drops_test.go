package mqtt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

const droppedTopic = "$SYS/broker/publish/messages/dropped"

func TestDropCount(t *testing.T) {
	for _, c := range []struct {
		name     string
		readings []uint64
		want     uint64
	}{
		{"nothing dropped", []uint64{0, 0}, 0}, {"what was before", []uint64{70}, 0}, {"some", []uint64{70, 75, 75, 80}, 10},
		{"broker started again", []uint64{70, 3, 5}, 5}, {"and dropped more than before", []uint64{70, 0, 90}, 90},
	} {
		var d dropCount
		got := uint64(0)
		for _, n := range c.readings {
			got += d.take(n)
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// watched starts a broker with a short queue and a session that reads its count.
func watched(t *testing.T, extra string, change func(*SessionConfig)) (*rig.Mosquitto, *agent) {
	t.Helper()
	m, err := rig.StartMosquitto(t.TempDir(), "sys_interval 1\nmax_queued_messages 5\nmax_inflight_messages 1\n"+extra)
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	c := testConfig("mqtt://"+m.Addr, 1)
	c.DroppedTopic = droppedTopic
	change(&c)
	a := startAgentWith(t, newMemJournal(), c, faults{}, func(s *Session) { s.patience.lag = 3 * time.Second })
	a.waitReady()
	return m, a
}

func flood(t *testing.T, addr string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	p := rig.NewPublisher(rig.PublisherConfig{Addr: addr, ClientID: "flood", QoS: 1, Window: 50})
	defer p.Close()
	for i := range n {
		if err := p.Publish(ctx, "t/1", false, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestBrokerDrops: what a real broker with a short queue dropped while the session held back is counted to the message, over a restart of the
// broker too, and the session itself notices nothing.
func TestBrokerDrops(t *testing.T) {
	m, a := watched(t, "", func(c *SessionConfig) { c.Sources[0].MaxRate = 2 })
	known := func() bool {
		d := &a.session.drops
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.count.known
	}
	eventually(t, "first reading", known)
	const each = 120
	for round := 1; round <= 2; round++ {
		flood(t, m.Addr, each)
		eventually(t, "all is journaled or counted as dropped", func() bool {
			s := a.session.Stats()
			return s.Journaled+s.Dropped == uint64(round*each)
		})
		s := a.session.Stats()
		if s.Dropped == 0 || s.DroppedAway == 0 || s.DroppedErr != "" || s.ConnectFailures > uint64(100*round) {
			t.Fatalf("round %d: %+v", round, s)
		}
		t.Logf("round %d: %d journaled, %d dropped", round, s.Journaled, s.Dropped)
		if round == 1 {
			if err := m.Restart(); err != nil { // its count begins at 0 again
				t.Fatal(err)
			}
			connects := s.Connects
			eventually(t, "session is back", func() bool {
				s := a.session.Stats()
				return s.Connects > connects && s.State == "ready" && s.DroppedErr == ""
			})
		}
	}
}

// TestBrokerDropsOfOthers: what it dropped while this session kept up is told apart.
func TestBrokerDropsOfOthers(t *testing.T) {
	m, a := watched(t, "", func(*SessionConfig) {})
	other := testConfig("mqtt://"+m.Addr, 1, "u/#")
	other.ClientID = "other"
	o := startAgent(t, newMemJournal(), other, faults{})
	o.waitReady()
	o.stop() // its session stays
	eventually(t, "the session has been ready for long", func() bool {
		s := a.session
		return time.Since(s.born)-time.Duration(s.heldAt.Load()) > 4*time.Second
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	p := rig.NewPublisher(rig.PublisherConfig{Addr: m.Addr, ClientID: "flood", QoS: 1, Window: 50})
	defer p.Close()
	for i := range 30 {
		if err := p.Publish(ctx, "u/1", false, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "drops are counted", func() bool { return a.session.Stats().Dropped > 0 })
	if s := a.session.Stats(); s.DroppedAway != 0 {
		t.Errorf("%d of %d are counted to this session", s.DroppedAway, s.Dropped)
	}
}

// TestBrokerDropsUnknown: a count that cannot be read is named, and the session goes on.
func TestBrokerDropsUnknown(t *testing.T) {
	acl := filepath.Join(t.TempDir(), "acl")
	if err := os.WriteFile(acl, []byte("topic readwrite t/#\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ extra, topic, want string }{
		"no right":  {"acl_file " + acl + "\n", droppedTopic, "may this user read it"},
		"no number": {"", "$SYS/broker/version", "no whole number"},
		"no topic":  {"", "$SYS/broker/nothing", "nothing came"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := rig.StartMosquitto(t.TempDir(), c.extra)
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { m.Stop() })
			config := testConfig("mqtt://"+m.Addr, 1)
			config.DroppedTopic = c.topic
			j := newMemJournal()
			a := startAgentWith(t, j, config, faults{}, func(s *Session) { s.patience.silence = 50 * time.Millisecond })
			a.waitReady()
			eventually(t, "the status says why", func() bool { return strings.Contains(a.session.Stats().DroppedErr, c.want) })
			flood(t, m.Addr, 10)
			a.waitMessages(10)
			if s := a.session.Stats(); s.Dropped != 0 || s.State != "ready" || !strings.Contains(s.DroppedErr, c.topic) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDropWarningsAreBounded: however many readings tell of drops, the log has one line.
func TestDropWarningsAreBounded(t *testing.T) {
	c := testConfig("mqtt://127.0.0.1:1", 1)
	c.DroppedTopic = droppedTopic
	a := startAgent(t, newMemJournal(), c, faults{})
	a.stop()
	for n := range 1000 {
		a.session.dropReading(fmt.Sprint(n * 10))
	}
	d := &a.session.drops
	if d.dropped != 9990 || d.untold != 9980 {
		t.Errorf("%d dropped, of which %d wait to be told; the first 10 are", d.dropped, d.untold)
	}
}
