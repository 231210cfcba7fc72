package window_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

// stream feeds an operator rows of keys in the order of time, each key `rate` rows a second, with the watermark behind each instant, so
// that windows fire and are forgotten as they do on a gateway.
type stream struct {
	op   pipeline.Operator
	out  *pipeline.Out
	rows []pipeline.Row
	next int
	time int64
	step int64 // ms between two instants
	made []*state.Table

	table func(state.Spec) *state.Table
}

// Table implements pipeline.Tables.
func (s *stream) Table(spec state.Spec) (*state.Table, error) {
	t := s.table(spec)
	s.made = append(s.made, t)
	return t, nil
}

// barrierMs is how often there is a checkpoint: deleted entries go with it.
const barrierMs = 10_000

func newStream(tb testing.TB, op pipeline.Operator, keys, rate int) *stream {
	tb.Helper()
	return newStreamIn(tb, op, keys, rate, state.New)
}

func newStreamIn(tb testing.TB, op pipeline.Operator, keys, rate int, table func(state.Spec) *state.Table) *stream {
	tb.Helper()
	s := &stream{op: op, table: table, out: pipeline.NewOut("", 2), step: int64(1000 / rate), time: 1_000_000}
	if err := op.Open(s); err != nil {
		tb.Fatal(err)
	}
	s.out.Reuse = true
	for i := range keys {
		s.rows = append(s.rows, pipeline.Row{Slots: []pipeline.Value{pipeline.StringValue(fmt.Sprintf("device-%05d", i)), pipeline.FloatValue(float64(i) / 10)}})
	}
	return s
}

// row is one row, and behind the last one of an instant the watermark and the end of the batch.
func (s *stream) row() {
	r := &s.rows[s.next]
	r.Time = s.time
	s.out.At = pipeline.At{Pos: 1, Phase: pipeline.During}
	s.op.Process(0, r, s.out)
	if s.next++; s.next == len(s.rows) {
		s.next = 0
		s.out.At = pipeline.At{Pos: 1, Phase: pipeline.After}
		s.op.Watermark(s.time, s.out)
		s.out.Reset()
		if s.time += s.step; s.time%barrierMs == 0 {
			for _, t := range s.made {
				t.Freeze().Commit()
			}
		}
	}
}

// warm runs past the first windows, until as many are forgotten as begin.
func (s *stream) warm(d time.Duration) {
	for end := s.time + d.Milliseconds(); s.time < end; {
		s.row()
	}
}

func slideAggs() []window.Agg {
	value := optest.Expr("value")
	return []window.Agg{{Kind: window.Avg, Arg: value, Slot: outAvg}, {Kind: window.Max, Arg: value, Slot: outMax}, {Kind: window.CountRows, Slot: outCount}}
}

var slideOps = []struct {
	name string
	new  func() pipeline.Operator
	warm time.Duration
}{
	{"tumbling 1s", func() pipeline.Operator {
		c := tumbling(time.Second, 0)
		c.Aggs = slideAggs()
		return window.NewTumbling(c)
	}, 10 * time.Second},
	{"hopping 1h by 1s", func() pipeline.Operator {
		c := hopping(time.Hour, time.Second, 0)
		c.Aggs = slideAggs()
		return window.NewHopping(c)
	}, 2*time.Hour + 5*time.Minute},
	{"hopping 1m by 1s", func() pipeline.Operator {
		c := hopping(time.Minute, time.Second, 0)
		c.Aggs = slideAggs()
		return window.NewHopping(c)
	}, 5 * time.Minute},
	{"session 5m", func() pipeline.Operator {
		c := session(5*time.Minute, 0, false)
		c.Aggs = slideAggs()
		return window.NewSession(c)
	}, 10 * time.Second},
}

// BenchmarkWindows is the cost of a row with all that it causes: firings (one per key and slide), panes, forgetting.
func BenchmarkWindows(b *testing.B) {
	for _, rate := range []int{1, 10} {
		for _, o := range slideOps {
			b.Run(fmt.Sprintf("rate=%d/%s", rate, o.name), func(b *testing.B) {
				s := newStream(b, o.new(), 100, rate)
				s.warm(o.warm)
				b.ReportAllocs()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				before := threadTime(b)
				for b.Loop() {
					s.row()
				}
				b.ReportMetric(float64(threadTime(b)-before)/float64(b.N), "cpu-ns/row")
			})
		}
	}
}

// threadTime is the CPU time of this thread in ns: what the machine does besides does not count.
func threadTime(tb testing.TB) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		tb.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// rusageThread is RUSAGE_THREAD of getrusage(2), Linux.
const rusageThread = 1

// TestWindowsInSteadyStateAllocateNothing: rows, firings and forgetting, once the first windows are behind.
func TestWindowsInSteadyStateAllocateNothing(t *testing.T) {
	for _, i := range []int{0, 2, 3} { // not the hopping window of an hour: two hours of warming take long
		o := slideOps[i]
		s := newStream(t, o.new(), 20, 10)
		s.warm(o.warm)
		if n := testing.AllocsPerRun(20, func() {
			for range 1000 {
				s.row()
			}
		}); n > 20 { // those of the checkpoints in between, whatever the number of rows
			t.Errorf("%s: %v allocations in 1000 rows, want those of checkpoints only: 20 at most", o.name, n)
		}
	}
}
