package crash

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// TestTwins: a replacement is restored while the device before still runs and receives everything too. Upstream has each row once under each number once; the device before stops at its next
// contact and hands over exactly what upstream has not.
func TestTwins(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	w := newTwins(t, true)
	w.replaceRunning()
	w.one.await("it stops", stoodDown)
	w.other.await("the replacement has delivered", quiet)
	w.one.child.Kill()
	for _, p := range w.judgeTwins() {
		t.Error(p)
	}
	w.one.start()
	w.one.await("it starts fenced", stoodDown)
	if s := w.one.await("it is not connected", stoodDown); s.Sessions[0].Counters["connects"] != 0 || s.Pipelines[0].State != "stopped" {
		t.Errorf("a fenced device works: %+v", s.Sessions[0])
	}
}

// quiet: nothing waits.
func quiet(s *api.Status) bool {
	return len(s.Pipelines) > 0 && s.Pipelines[0].State == "running" && s.Pipelines[0].Lag == 0 &&
		!slices.ContainsFunc(s.Pipelines[0].Sinks, func(k api.SinkLedger) bool { return k.Pending > 0 })
}

// covered: a checkpoint stands where the pipeline does, or every row is upstream, those too that leave with a checkpoint; else one is asked for, which covers what was worked on
// before the status was given. Its position is not looked at: the agent's own records move the pipeline on at any time, and none comes of itself for minutes when only they came.
func (d *device) covered(s *api.Status) bool {
	p := &s.Pipelines[0]
	if p.Checkpoint.Position >= p.Position {
		return true
	}
	if len(p.Sources) == 1 && !slices.ContainsFunc(p.Sinks, func(k api.SinkLedger) bool {
		return k.UID != "$dead" && (k.Pending > 0 || k.Emitted < p.Sources[0].Received)
	}) {
		return true
	}
	_, err := d.try("checkpoint", "trigger", p.Name) // it waits until the checkpoint is on flash
	return err == nil
}

// settled: so many messages are in the journal, and nothing waits, in three looks on end: a look may fall between a checkpoint and the release of its results.
func (d *device) settled(journaled uint64) func(*api.Status) bool {
	calm := 0
	return func(s *api.Status) bool {
		calm++
		if len(s.Sessions) == 0 || s.Sessions[0].Counters["journaled"] < journaled || !quiet(s) || !d.covered(s) {
			calm = 0
		}
		return calm >= 3
	}
}

// replaceRunning: the second device takes the first one's place in the middle of its work, from a savepoint that is older than what it has delivered.
func (w *twins) replaceRunning() {
	w.publishMore(400)
	w.one.await("it delivers", delivered(400))
	from := w.saved()
	w.publishMore(200)
	w.one.await("it delivers", delivered(600))
	told := w.other.weir("restore", "--from", from, "--gateway", "crash")
	if !strings.Contains(told, "incarnation 2.0") || !strings.Contains(told, "lost is what came between") {
		w.t.Errorf("restore says: %s", told)
	}
	w.publishMore(50) // the claim stands, and the replacement does not run yet
	w.other.start()
	w.publishMore(50)
	w.other.await("it is connected", connected)
	w.publishMore(300)
	w.other.await("it receives", w.other.settled(300))
}

// TestTwinsFault: with a replacement that no sink can tell from the device before, and a device before that does not act on a fence, the oracle must find something.
func TestTwinsFault(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	w := newTwins(t, true, "WEIR_FAULT=deaf")
	w.other.env = []string{"WEIR_FAULT=meek", "WEIR_MEEK=set:one"}
	w.replaceRunning()
	s := w.one.await("it goes on", w.one.settled(1000))
	if s.Identity.Fenced != "" {
		t.Fatal("the fault is not there")
	}
	w.one.child.Kill()
	if problems := w.judgeTwins(); len(problems) == 0 {
		t.Error("the oracle finds nothing")
	} else {
		t.Log(problems[0])
	}
}

// TestReturningTwin: a device that could not deliver is replaced and comes back. It hears from upstream that its place is taken before it connects to the broker, whose session is its
// successor's; it keeps what it has, and hands over exactly what was not delivered.
func TestReturningTwin(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	w := newTwins(t, false)
	w.publishMore(300)
	w.one.await("it delivers", delivered(300))
	from := w.saved()
	w.publishMore(100)
	w.one.await("it delivers", delivered(400))
	for _, e := range w.all {
		w.must(e.down())
	}
	w.publishMore(200)
	w.one.await("they wait", func(s *api.Status) bool {
		return s.Pipelines[0].Lag == 0 && s.Sessions[0].Counters["received"] >= 600 &&
			!slices.ContainsFunc(s.Pipelines[0].Sinks, func(k api.SinkLedger) bool { return k.UID != "$dead" && k.Emitted < 600 }) && w.one.covered(s)
	})
	w.one.child.Kill()
	for _, e := range w.all {
		w.must(e.up())
	}
	w.other.weir("restore", "--from", from, "--gateway", "crash")
	w.other.start()
	w.other.await("it is connected", connected)
	w.publishMore(200)
	w.other.await("the replacement delivers", w.other.settled(200))

	w.one.start()
	s := w.one.await("it stops", stoodDown)
	if n := s.Sessions[0].Counters["connects"]; n != 0 {
		t.Errorf("it connected %d times", n)
	}
	w.publishMore(100)
	s = w.other.await("the replacement goes on", w.other.settled(300))
	if n := s.Sessions[0].Counters["connects"]; n != 1 {
		t.Errorf("the replacement lost its session: %d connects", n)
	}
	w.one.child.Kill()
	for _, p := range w.judgeTwins() {
		t.Error(p)
	}
	results, records := w.results, w.records
	for _, kind := range w.kinds {
		for _, uid := range []string{kind + "-immediate", kind + "-checkpoint"} {
			if got := results[uid]; len(got) != 200 || got[0] != 400 || got[199] != 599 {
				t.Errorf("%s: %d results are handed over", uid, len(got))
			}
		}
	}
	if len(records) != 0 {
		t.Errorf("%d messages are handed over", len(records))
	}
}

// TestTwinsByTheClaim: both devices have one client id and one central store. The claim stops the device before at its next poll, though its sinks have nothing to send; what is published while
// nobody is connected waits at the broker for the replacement. Upstream has every row once.
func TestTwinsByTheClaim(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	w := newTwins(t, false)
	if !w.central {
		t.Skip("no object store")
	}
	w.publishMore(400)
	w.one.await("it delivers", delivered(400))
	w.one.await("all of it is uploaded", func(s *api.Status) bool {
		c := s.Pipelines[0].Central
		return w.one.covered(s) && c != nil && c.Position >= s.Pipelines[0].Checkpoint.Position
	})
	w.publishMore(200)
	w.one.await("it delivers", delivered(600))
	told := w.other.weir("restore", "--from", "central", "--gateway", "crash", "--any-key")
	claimed := time.Now()
	s := w.one.await("it stops", stoodDown)
	t.Logf("%s\nthe device before stopped %s behind the claim", told, time.Since(claimed).Round(time.Millisecond))
	if s.Identity.Stranded.Results != 0 || s.Identity.Stranded.Records != 0 {
		t.Errorf("all was delivered: %+v", s.Identity.Stranded)
	}
	w.publishMore(100)
	w.other.start()
	w.other.await("the replacement takes what has waited", w.other.settled(100))
	w.publishMore(100)
	two := w.other.settled(200)
	w.other.await("and uploads", func(s *api.Status) bool {
		c := s.Pipelines[0].Central
		return two(s) && c != nil && c.Position >= s.Pipelines[0].Checkpoint.Position
	})
	w.one.child.Kill()
	for _, p := range w.judgeTwins() {
		t.Error(p)
	}
	for i, kind := range w.kinds {
		if n := len(w.rows(i, kind+"-checkpoint")); n != w.number {
			t.Errorf("%s holds %d of %d rows", kind, n, w.number)
		}
	}
}
