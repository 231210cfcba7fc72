package forward

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// narrow: a sink and a journal that are soon full.
const narrow = `
journal: {max_bytes: 1MiB, segment: 256KiB, reserve: 0, compress: false}
pipelines:
  p:
    start: earliest
    checkpoint: {interval: 200ms}
    sinks:
      - {uid: up, from: m, max_bytes: 64KiB, on_full: block, http: {url: "URL/dead", batch: {records: 100}}}
`

// TestPressureGoesBackToTheBroker: the receiver refuses. Sink full, pipeline held, journal full, session holds back, and the broker keeps
// the rest; kill -9 in that state; then the receiver takes again, and each message is there once.
func TestPressureGoesBackToTheBroker(t *testing.T) {
	s := newSite(t, "", narrow)
	s.refusing.Store(true)
	s.start()
	const messages = 9000
	s.publish(300, 400) // more than the sink may hold, let in before the first checkpoint makes them visible
	came := uint64(0)   // where the pipeline stood when it had them all; its own records move it on
	s.await("a checkpoint covers them", func(st *api.Status) bool {
		p := &st.Pipelines[0]
		if came == 0 && len(p.Sources) > 0 && p.Sources[0].Received >= 300 {
			came = p.Position
		}
		return came > 0 && p.Checkpoint.Position >= came
	})
	s.publish(100, 400)
	s.await("the sink is full", func(st *api.Status) bool { return sinkOf(st, "up").Full })
	s.publish(messages-s.published, 400) // Flush: the broker has them all
	full := func(st *api.Status) bool {
		return sinkOf(st, "up").Full && st.Journal.Full && st.Sessions[0].Counters["full"] > 0
	}
	st := s.await("the pressure is at the broker", full)
	k := sinkOf(&st, "up")
	if k.Bytes > 300*500 || k.Confirmed != 0 || k.State != "retrying" || !strings.Contains(k.Error, "503") {
		t.Errorf("sink %+v", k)
	}
	if n := st.Sessions[0].Counters["journaled"]; n >= messages {
		t.Errorf("all of %d messages are in a journal of 1 MiB", n)
	}
	text := strings.Join(st.Problems, "; ")
	for _, want := range []string{"sink up is full", "the journal is full", "503"} {
		if !strings.Contains(text, want) {
			t.Errorf("the problems do not say %q: %s", want, text)
		}
	}
	stood := st.Pipelines[0].Position
	s.agent.Kill()
	s.start()
	st = s.await("the pressure is there again", full)
	if again := st.Pipelines[0].Position; again < stood/2 || again > messages/2 {
		t.Errorf("the pipeline stands at %d, before the kill at %d", again, stood)
	}
	s.refusing.Store(false)
	st = s.await("everything is delivered", func(st *api.Status) bool {
		return sinkOf(st, "up").Confirmed == messages && !st.Journal.Full
	})
	if k := sinkOf(&st, "up"); k.Full || k.Rejected+k.Dropped != 0 || !st.Pipelines[0].Balanced {
		t.Errorf("after all was delivered: %+v, %s", k, st.Pipelines[0].Imbalance)
	}
	s.stop()
	s.exact("up")
}

// TestTheBrokerDropsWhileItIsHeldBack: the same pressure on a broker with a short queue, which drops. Status and metrics say how many it counted, and what it
// gave out is delivered. Its count is a lower bound: mosquitto 2.0 on a busy machine leaves out some (5400 published, 2256 counted, 1800 given out).
func TestTheBrokerDropsWhileItIsHeldBack(t *testing.T) {
	s := newSite(t, "max_queued_messages 500\nmax_inflight_messages 20\nsys_interval 1\n", narrow)
	s.refusing.Store(true)
	s.start()
	s.await("the broker's count was read", func(st *api.Status) bool {
		return st.Sessions[0].Drops != nil && st.Sessions[0].Drops.Error == ""
	})
	for st := s.await("status", func(*api.Status) bool { return true }); !st.Journal.Full && st.Sessions[0].Drops.Dropped == 0; st = s.await("status", func(*api.Status) bool { return true }) {
		s.publish(100, 400)
	}
	s.publish(1500, 400) // three times what the broker holds
	st := s.await("the drops are told", func(st *api.Status) bool { return st.Sessions[0].Drops.Away > 500 })
	if text := strings.Join(st.Problems, "; "); !strings.Contains(text, "broker local dropped") || !strings.Contains(text, "raise max_queued_messages") {
		t.Errorf("the problems do not tell of it: %s", text)
	}
	s.refusing.Store(false)
	st = s.await("everything that is left is delivered", func(st *api.Status) bool {
		b := &st.Sessions[0]
		return !st.Journal.Full && b.State == "ready" && sinkOf(st, "up").Confirmed == b.Counters["journaled"]
	})
	drops := st.Sessions[0].Drops.Dropped
	if k := sinkOf(&st, "up"); k.Rejected+k.Dropped != 0 || !st.Pipelines[0].Balanced {
		t.Errorf("after all was delivered: %+v, %s", k, st.Pipelines[0].Imbalance)
	}
	if st.Sessions[0].Counters["broker_dropped"] != drops || drops <= 500 {
		t.Errorf("the counter says %d, the status %d", st.Sessions[0].Counters["broker_dropped"], drops)
	}
	s.stop()
	ids, gaps := s.rows("up")
	seen := map[int]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	if len(seen) != len(ids) || len(ids)+int(drops) > s.published || gaps != 0 {
		t.Errorf("%d rows of %d ids, %d gaps, %d dropped by the broker, %d were published", len(ids), len(seen), gaps, drops, s.published)
	}
	t.Logf("%d published, %d dropped by the broker, %d delivered", s.published, drops, len(ids))
}
