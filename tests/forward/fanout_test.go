package forward

import (
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// TestADeadSinkHoldsOnlyItsOwn: three sinks of one pipeline, with different commit modes: one whose upstream refuses, one that is slow, one
// that is fast; and kill -9 in between. The dead one is full and drops its oldest; the others have all, and checkpoints go on.
func TestADeadSinkHoldsOnlyItsOwn(t *testing.T) {
	s := newSite(t, "", `
journal: {max_bytes: 8MiB, segment: 256KiB, reserve: 0}
pipelines:
  p:
    start: earliest
    checkpoint: {interval: 100ms}
    steps:
      - {uid: all, from: m, select: [id, pad]}
    sinks:
      - {uid: dead, from: all, max_bytes: 64KiB, on_full: drop_oldest, http: {url: "URL/dead", batch: {records: 20}}}
      - {uid: slow, from: all, http: {url: "URL/slow", batch: {records: 50}}}
      - {uid: fast, from: all, commit: immediate, http: {url: "URL/fast"}}
`)
	s.refusing.Store(true)
	s.slow.Store(int64(20 * time.Millisecond))
	s.start()
	others := func(st *api.Status) bool {
		return sinkOf(st, "slow").Confirmed == uint64(s.published) && sinkOf(st, "fast").Confirmed == uint64(s.published)
	}
	for range 12 { // each round is a checkpoint or more
		s.publish(100, 200)
	}
	st := s.await("the dead sink drops", func(st *api.Status) bool { return sinkOf(st, "dead").Overflowed > 0 })
	s.agent.Kill()
	s.start()
	s.publish(600, 200)
	st = s.await("the others have all", others)
	checkpoint, dropped := st.Pipelines[0].Checkpoint.ID, sinkOf(&st, "dead").Overflowed
	s.publish(300, 200)
	st = s.await("checkpoints go on", func(st *api.Status) bool {
		return others(st) && st.Pipelines[0].Checkpoint.ID > checkpoint && st.Pipelines[0].Checkpoint.Position >= uint64(s.published)
	})
	dead := sinkOf(&st, "dead")
	if dead.Full || dead.Confirmed != 0 || dead.Overflowed < dropped || dead.Emitted != uint64(s.published) {
		t.Errorf("the dead sink: %+v", dead)
	}
	for _, uid := range []string{"slow", "fast"} {
		if k := sinkOf(&st, uid); k.Dropped+k.Rejected+k.Divergences != 0 || k.DiskBytes > 2<<20 {
			t.Errorf("%s: %+v", uid, k)
		}
	}
	s.refusing.Store(false)
	st = s.await("the dead sink is back", func(st *api.Status) bool {
		k := sinkOf(st, "dead")
		return k.Confirmed+k.Dropped == uint64(s.published)
	})
	if !st.Pipelines[0].Balanced {
		t.Error(st.Pipelines[0].Imbalance)
	}
	dropped = sinkOf(&st, "dead").Dropped
	s.stop()
	s.exact("slow")
	s.exact("fast")
	ids, gaps := s.rows("dead")
	if len(ids)+int(gaps) != s.published || gaps != dropped || gaps == 0 || len(ids) == 0 {
		t.Errorf("the dead sink's upstream holds %d rows and %d gaps, the ledger says %d dropped of %d", len(ids), gaps, dropped, s.published)
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Fatalf("id %d behind %d", ids[i], ids[i-1])
		}
	}
	if len(ids) > 0 && ids[len(ids)-1] != s.published {
		t.Errorf("the newest is %d, want %d: the oldest are to go", ids[len(ids)-1], s.published)
	}
}
