package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
)

const keyedPipeline = `
  p:
    start: earliest
    parallelism: N
    checkpoint: {interval: 50ms, store: STORE, mode: MODE}
    steps:
      - {uid: moved, from: s, by: [k], deadband: {value: id, threshold: 0}}
      - {uid: w, from: moved, by: [k], window: {tumbling: 10ms}, aggregate: {n: count()}}
    sinks:
      - {uid: now, from: moved, commit: immediate, http: {url: "URL"}}
      - {uid: later, from: w, http: {url: "URL"}}
`

func keyedBench(t *testing.T, store, mode string) *bench {
	b := newBench(t, strings.NewReplacer("STORE", store, "MODE", mode).Replace(keyedPipeline))
	if mode == "at-least-once" {
		b.text = strings.Replace(b.text, "commit: immediate, ", "", 1)
	}
	return b
}

// putKeys journals messages of 17 keys.
func (b *bench) putKeys(first, last int) {
	b.t.Helper()
	for i := first; i <= last; i++ {
		e := &pipeline.Entry{
			Kind: pipeline.EntryMessage, Source: "s", QoS: 1, Topic: fmt.Appendf(nil, "t/k%d", i%17),
			Payload: fmt.Appendf(nil, `{"id":%d,"ts":%d}`, i, 1767225600000+int64(i)),
		}
		if _, err := b.agent.journal.Append(e); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestParallelismChangesAtARestart: up and down, over both stores. The upstream holds one stream, in the one order, without a divergence; counts
// go on; the status shows the instances.
func TestParallelismChangesAtARestart(t *testing.T) {
	for _, store := range []string{"log", "bbolt"} {
		t.Run(store, func(t *testing.T) {
			b := keyedBench(t, store, "exactly-once")
			text, last := b.text, 0
			for _, n := range []int{2, 5, 1, 3} {
				b.text = strings.Replace(text, "parallelism: N", fmt.Sprint("parallelism: ", n), 1)
				b.start()
				b.putKeys(last+1, last+400)
				last += 400
				s := b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= uint64(last) })
				p := s.Pipelines[0]
				if p.Sources[0].Received != uint64(last) || p.Steps[0].In != uint64(last) || p.Steps[1].In != uint64(last) {
					t.Errorf("with %d instances the ledger counts %+v, %+v, want %d records", n, p.Sources, p.Steps, last)
				}
				if n > 1 {
					rows := uint64(0)
					for _, r := range p.Tasks[0].Regions[0].Rows {
						rows += r
					}
					if len(p.Tasks[0].Regions[0].Rows) != n || rows < 400 {
						t.Errorf("%d instances are shown as %+v", n, p.Tasks)
					}
				}
				b.halt()
			}
			b.wantIDs("p", [2]int{1, last})
		})
	}
}

// TestAtLeastOnceDeliversEverything, over restarts; results may repeat.
func TestAtLeastOnceDeliversEverything(t *testing.T) {
	b := keyedBench(t, "log", "at-least-once")
	b.text = strings.Replace(b.text, "parallelism: N", "parallelism: 2", 1)
	last := 0
	for range 3 {
		b.start()
		b.putKeys(last+1, last+200)
		last += 200
		b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= uint64(last) })
		b.halt()
	}
	got, _ := b.ids("p", "now")
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != last || got[0] != 1 || got[last-1] != last {
		t.Errorf("upstream holds %d of %d records", len(got), last)
	}
}
