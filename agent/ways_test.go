package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

const linkedPipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: all, from: s, select: [id, k]}
    sinks:
      - {uid: now, from: all, link: lte, priority: high, http: {url: "URL"}}
      - {uid: rest, from: all, link: lte, priority: normal, max_bytes: 64KiB, on_full: drop_oldest, http: {url: "URL"}}
links:
  lte: {bandwidth: 1MiB, windows: ["FROM-TO"], zone: UTC, any_time: high}
`

// TestLinkHoldsWhatIsNotUrgent: outside of the window of a metered link the urgent sink sends, the other waits and says so; it may drop its oldest
// meanwhile, since it has taken nothing. A device whose clock is not known to be right holds as well.
func TestLinkHoldsWhatIsNotUrgent(t *testing.T) {
	b := newBench(t, linkedPipeline)
	closed := time.Now().UTC().Add(3 * time.Hour)
	template := b.text
	between := func(from, to time.Time) string {
		return strings.NewReplacer("FROM", from.Format("15:04"), "TO", to.Format("15:04")).Replace(template)
	}
	sink := func(s *api.Status, i int) *api.SinkLedger {
		if len(s.Pipelines) == 0 || len(s.Pipelines[0].Sinks) <= i {
			return &api.SinkLedger{}
		}
		return &s.Pipelines[0].Sinks[i]
	}
	urgentOnly := func(s *api.Status) bool {
		return sink(s, 0).Confirmed == sink(s, 0).Emitted && sink(s, 0).Emitted > 0 && sink(s, 1).State == "held" && sink(s, 1).Confirmed == 0
	}
	b.text = between(closed, closed.Add(2*time.Hour))
	b.options.TrustClock = true
	b.start()
	n := 0
	for ; n < 10_000; n += 1000 { // rows of some 20 bytes, 64 KiB are kept
		b.put(n+1, n+1000)
		b.await("the urgent sink has delivered", func(s *api.Status) bool { return urgentOnly(s) && sink(s, 0).Confirmed == uint64(n+1000) })
	}
	s := b.await("the other holds and drops", func(s *api.Status) bool { return urgentOnly(s) && sink(s, 1).Overflowed > 0 })
	if k := sink(&s, 1); !strings.Contains(k.Held, closed.Format("15:04")) || k.Bytes > 64<<10 {
		t.Errorf("%+v", k)
	}
	begin := time.Now()
	b.halt()
	if took := time.Since(begin); took > deliverWait/2 && took < 2*deliverWait {
		t.Logf("the stop took %s", took) // it must not wait for what is held; the machine may be slow
	}

	b.text = between(time.Now().UTC().Add(-time.Hour), time.Now().UTC().Add(2*time.Hour))
	b.options.TrustClock = false
	b.start()
	if !b.agent.clock.Stamp().Trusted {
		s = b.await("an untrusted clock holds", func(s *api.Status) bool { return strings.Contains(sink(s, 1).Held, "clock") })
		if text := fmt.Sprint(s.Problems); !strings.Contains(text, "sink rest waits for a clock") {
			t.Errorf("problems: %s", text)
		}
	}
	b.halt()

	b.options.TrustClock = true
	b.start()
	s = b.await("the window is open", func(s *api.Status) bool {
		k := sink(s, 1)
		return k.Confirmed+k.Dropped == uint64(n) && k.State == "ok"
	})
	if k := sink(&s, 1); k.Dropped == 0 || k.Overflowed != k.Dropped || k.Expired != 0 {
		t.Errorf("%+v", k)
	}
	b.halt()
}
