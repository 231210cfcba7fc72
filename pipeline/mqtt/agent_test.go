package mqtt

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
)

const testClient = "gw-1"

// patience bounds every wait of the tests; nothing takes nearly so long.
const patience = rig.Patience

var errKilled = errors.New("killed")

// agent is a session under test.
type agent struct {
	t       *testing.T
	session *Session
	journal *memJournal
	cancel  context.CancelFunc
	done    chan error
	once    sync.Once
}

func testConfig(url string, qos uint8, filters ...string) SessionConfig {
	c := DefaultConfig()
	c.Name, c.URL, c.ClientID = "plant", url, testClient
	c.ReconnectMin, c.ReconnectMax, c.TakeoverWait = time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	if len(filters) == 0 {
		filters = []string{"t/#"}
	}
	for _, f := range filters {
		source := DefaultSource()
		source.Name, source.Filter, source.QoS = f, f, qos
		c.Sources = append(c.Sources, source)
	}
	return c
}

func startAgent(t *testing.T, j *memJournal, c SessionConfig, fault faults) *agent {
	t.Helper()
	return startAgentWith(t, j, c, fault, func(*Session) {})
}

func startAgentWith(t *testing.T, j *memJournal, c SessionConfig, fault faults, change func(*Session)) *agent {
	t.Helper()
	a := &agent{t: t, journal: j, done: make(chan error, 1)}
	s, err := NewSession(c, j, slog.New(slog.NewTextHandler(testLog(t), nil)), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	s.fault, a.session = fault, s
	change(s)
	s.anchors = anchorPolicy{records: 8, span: 40, perItem: 1} // as many as a long life has
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() { a.done <- s.Run(ctx) }() // ends with stop or kill, which wait for it
	t.Cleanup(a.kill)
	return a
}

// stop ends the agent in order.
func (a *agent) stop() {
	a.t.Helper()
	a.once.Do(func() {
		a.cancel()
		if err := <-a.done; err != nil {
			a.t.Errorf("Run returned %v", err)
		}
		a.journal.die(errKilled)
	})
}

// kill is kill -9: nothing is committed or acknowledged any more. reborn of the journal then shows what survives.
func (a *agent) kill() {
	a.once.Do(func() {
		a.journal.die(errKilled)
		a.session.fail(errKilled)
		a.cancel()
		<-a.done
	})
}

func (a *agent) waitReady() {
	a.t.Helper()
	eventually(a.t, "session ready", func() bool { return a.session.phase() == phaseReady })
}

// waitMessages waits for n message records.
func (a *agent) waitMessages(n int) {
	a.t.Helper()
	eventually(a.t, "messages", func() bool { return countKind(a.journal.all(), pipeline.EntryMessage) >= n })
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func newBroker(t *testing.T, c rig.BrokerConfig) *rig.Broker {
	t.Helper()
	b, err := rig.NewBroker(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// settled waits until the broker holds nothing for the client any more.
func settled(t *testing.T, b *rig.Broker, client string) {
	t.Helper()
	eventually(t, "broker has nothing left", func() bool {
		i := b.Session(client)
		return i.Queued == 0 && i.InFlight == 0
	})
}

// tally counts what is missing of want and what is there more than once.
func tally(want, got []string) (lost, duplicate int) {
	seen := make(map[string]int)
	for _, g := range got {
		seen[g]++
	}
	for _, w := range want {
		if seen[w] == 0 {
			lost++
		}
	}
	for _, n := range seen {
		duplicate += n - 1
	}
	return lost, duplicate
}

// ignoreAcks makes the broker deaf to PUBACK and PUBREC.
func ignoreAcks(_ string, p packets.ControlPacket) bool {
	switch p.(type) {
	case *packets.PubackPacket, *packets.PubrecPacket:
		return false
	}
	return true
}

// testLog shows the session's log when the test fails.
func testLog(t *testing.T) io.Writer {
	buf := new(lockedBuffer)
	t.Cleanup(func() {
		if t.Failed() {
			buf.mu.Lock()
			defer buf.mu.Unlock()
			t.Log("session log:\n" + buf.text.String())
		}
	})
	return buf
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}
