package crash

import (
	"encoding/json"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// bounded: outboxes that are at their limits most of the time, by size and by age.
const bounded = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 150ms}
    steps:
      - {uid: all, from: a, select: {id: id, k: k, ts: ts, v: v, pad: "k + k + k + k + k + k + k + k + k + k"}}
    sinks:
      - {uid: full-now-a, from: all, commit: immediate, max_bytes: 64KiB, on_full: drop_oldest, http: {url: "URL", batch: {records: 20}}}
      - {uid: full-later-a, from: all, max_bytes: 64KiB, on_full: drop_oldest, http: {url: "URL", batch: {records: 20}}}
      - {uid: old-now-a, from: all, commit: immediate, ttl: 300ms, http: {url: "URL", batch: {records: 20}}}
      - {uid: old-later-a, from: all, max_bytes: 64KiB, ttl: 500ms, on_full: drop_oldest, http: {url: "URL", batch: {records: 20}}}
`

// TestKilledAtTheLimits: kill -9 and power cuts while outboxes drop their oldest and expire, with a receiver that is away half of the time. Upstream has for each
// sequence a row or a gap, once; no row comes twice or behind a later one; the ledger's sums match at the end.
func TestKilledAtTheLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s := scenario{qos: 1, messages: 9_000, rate: 1500, kills: 4, powerCuts: 3, syncDelay: slowSync, config: busyJournal + bounded, streams: 4, patience: rig.Patience}
	toggles := 6
	if long() {
		s.messages, s.kills, s.powerCuts, toggles = 60_000, 40, 20, 40
	}
	away := false
	toggle := func(st *stage) {
		if away = !away; away {
			st.receiver.Kill()
		} else {
			st.startReceiver(&s)
		}
	}
	s.more = func(st *stage, add func(int, func())) { add(toggles, func() { toggle(st) }) }
	dropped := uint64(0)
	s.beforeFinish = func(st *stage) {
		if away {
			toggle(st)
		}
		status := st.awaitStatus("all is accounted for", func(s *api.Status) bool {
			for _, k := range s.Pipelines[0].Sinks {
				if k.UID != "$dead" && k.Emitted == 0 || k.Pending > 0 {
					return false
				}
			}
			return s.Pipelines[0].Lag == 0
		})
		for _, k := range status.Pipelines[0].Sinks {
			t.Logf("%s: %d emitted, %d confirmed, %d dropped (%d expired, %d made room)", k.UID, k.Emitted, k.Confirmed, k.Dropped, k.Expired, k.Overflowed)
			dropped += k.Dropped
		}
	}
	s.judge = func(r upstream, n int) ([]verdict, error) {
		planted, err := judgeBounded(forgetful{r}, n)
		for _, v := range planted {
			if v.OK() {
				t.Errorf("%s: the oracle does not find that a record is gone", v.Stream)
			}
		}
		if err != nil {
			return nil, err
		}
		return judgeBounded(r, n)
	}
	s.exact(t)
	if dropped == 0 {
		t.Error("nothing was dropped: the limits were not reached")
	}
}

// forgetful is a planted fault: the second line of each stream is gone.
type forgetful struct{ upstream }

func (f forgetful) Records(stream uplink.Stream, each func(uint64, wire.Line) error) error {
	n := 0
	return f.upstream.Records(stream, func(generation uint64, l wire.Line) error {
		if n++; n == 2 {
			return nil
		}
		return each(generation, l)
	})
}

// judgeBounded reads every stream as a run without holes.
func judgeBounded(r upstream, _ int) (all []verdict, err error) {
	names, err := r.Streams()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return nil, err
		}
		v, next, last, gaps := verdict{oracle.Verdict{Stream: stream.Sink}}, uint64(1), -1, uint64(0)
		err = r.Records(stream, func(_ uint64, l wire.Line) error {
			if l.Seq != next {
				v.Wrongf("sequence %d where %d comes next", l.Seq, next)
			}
			next = max(l.Last, l.Seq) + 1
			if l.Data == nil {
				gaps += next - l.Seq
				return nil
			}
			v.Got++
			var m message
			if err := json.Unmarshal(l.Data, &m); err != nil {
				return err
			}
			if m.ID <= last {
				v.Duplicate++
			}
			last = m.ID
			return nil
		})
		if err != nil {
			return nil, err
		}
		if gaps == 0 {
			v.Wrong = append(v.Wrong, "no gap: its limit was not reached")
		}
		all = append(all, v)
	}
	return all, nil
}
