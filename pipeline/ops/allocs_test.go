package ops_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

// steady are the operators that allocate nothing per row once every key is known, each with rows of several keys that pass,
// stay and change.
var steady = map[string]func() pipeline.Operator{
	"filter": func() pipeline.Operator { return ops.NewFilter(optest.Expr("value > 10 && key != 'x'")) },
	"select": func() pipeline.Operator {
		return ops.NewSelect([]ops.Column{{Slot: 0, Prog: optest.Expr("key")}, {Slot: 1, Prog: optest.Expr("value * 2 + 1")}}, 2)
	},
	"deadband": func() pipeline.Operator {
		return ops.NewDeadband(ops.DeadbandConfig{Key: []int{0}, Value: optest.Expr("value"), Threshold: 5})
	},
	"alarm": func() pipeline.Operator { return ops.NewAlarm(alarmConfig("value > 28", "value < 4")) },
	"changed": func() pipeline.Operator {
		return ops.NewChanged(ops.ChangedConfig{Keyed: byKey(), Value: optest.Expr("value")})
	},
	"delta": func() pipeline.Operator {
		return ops.NewDelta(ops.DeltaConfig{Keyed: byKey(), Carry: wide(1), Value: optest.Expr("value")})
	},
	"lag": func() pipeline.Operator {
		return ops.NewLag(ops.LagConfig{Keyed: byKey(), Carry: wide(1), Value: optest.Expr("value"), N: 2})
	},
	"counter":  func() pipeline.Operator { return ops.NewCounter(counterConfig()) },
	"zscore":   func() pipeline.Operator { return ops.NewZScore(zscoreConfig(288, 1)) },
	"throttle": func() pipeline.Operator { return ops.NewThrottle(ops.ThrottleConfig{Keyed: byKey(), Interval: 7}) },
	"sample":   func() pipeline.Operator { return ops.NewSample(ops.SampleConfig{Keyed: byKey(), Every: 3}) },
	"absence":  func() pipeline.Operator { return ops.NewAbsence(absenceConfig(1000, false)) },
	"split":    func() pipeline.Operator { return ops.NewShare(ops.ShareConfig{Key: []int{0}, Parts: 5000}) },
}

// treadmill runs an operator over batches as a task does that keeps its rows.
type treadmill struct {
	op   pipeline.Operator
	out  *pipeline.Out
	rows []pipeline.Row
	all  tables
	next int
}

func newTreadmill(tb testing.TB, op pipeline.Operator) *treadmill {
	m := &treadmill{op: op, out: pipeline.NewOut("", 2)}
	m.out.Reuse = true
	if err := op.Open(&m.all); err != nil {
		tb.Fatal(err)
	}
	if err := op.Restored(); err != nil {
		tb.Fatal(err)
	}
	for i := range 64 {
		v := val(i * i % 32)
		if i%3 == 0 {
			v = val(float64(i%32) + 0.5)
		}
		m.rows = append(m.rows, pipeline.Row{At: pipeline.At{Phase: pipeline.During}, Time: int64(i), Slots: []pipeline.Value{val("dev-" + string(rune('a'+i%8))), v, {}, {}}})
	}
	return m
}

// batch is all rows once, at a time and position of their own.
func (m *treadmill) batch() {
	m.out.Reset()
	for i := range m.rows {
		m.next++
		m.out.At = pipeline.At{Pos: pipeline.Position(m.next), Phase: pipeline.During}
		m.out.Now = pipeline.Stamp{Elapsed: int64(m.next)}
		m.op.Process(0, &m.rows[i], m.out)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, make := range steady {
		m := newTreadmill(t, make())
		for range 20 { // every key is known, rings are full, buffers have grown
			m.batch()
		}
		if m.all.held != nil {
			m.all.held.Freeze().Commit()
		}
		for range 20 {
			m.batch()
		}
		if n := testing.AllocsPerRun(100, m.batch); n != 0 {
			t.Errorf("%s allocates %v times in %d rows", name, n, len(m.rows))
		}
		if c := m.out.Counters; c.Emitted == 0 && name != "absence" || c.Dead > 0 { // absence says nothing while all are there
			t.Errorf("%s: %+v: the rows do not do their work", name, c)
		}
	}
}

func BenchmarkSteady(b *testing.B) {
	for name, make := range steady {
		b.Run(name, func(b *testing.B) {
			m := newTreadmill(b, make())
			for range 20 {
				m.batch()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += len(m.rows) {
				m.batch()
			}
		})
	}
}

var _ pipeline.Tables = (*tables)(nil)
