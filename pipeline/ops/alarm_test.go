package ops_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func TestAlarm(t *testing.T) {
	hysteresis := alarmConfig("value > 8", "value < 7.5")
	held := hysteresis
	held.HoldNs = 30
	noClear := alarmConfig("value > 8", "")
	latched := alarmConfig("value > 8", "topic == 'reset'")
	latched.Latch = true
	unlatched := latched
	unlatched.Latch = false
	limited := held
	limited.MaxKeys = 1
	reset := func(at int64, value any) optest.Record {
		r := rec(at, "a", value)
		r.Slots[optest.SlotTopic] = pipeline.StringValue("reset")
		return r
	}
	for _, c := range []struct {
		name       string
		config     ops.AlarmConfig
		records    []optest.Record
		want, dead string
	}{
		{
			name: "transitions only, both strict", config: hysteresis,
			records: []optest.Record{rec(1, "a", 8), rec(2, "a", 9), rec(3, "a", 10), rec(4, "a", 7.5), rec(5, "a", 7), rec(6, "a", 1), rec(7, "a", 9)},
			want:    "2:a,RAISE,9 5:a,CLEAR,7 7:a,RAISE,9",
		},
		{
			name: "keys are apart, null is a key", config: hysteresis,
			records: []optest.Record{rec(1, "a", 9), rec(2, nil, 9), rec(3, "a", 1)},
			want:    "1:a,RAISE,9 2:null,RAISE,9 3:a,CLEAR,1",
		},
		{
			name: "a hold ends before the first record at or past it, with the value that began it", config: held,
			records: []optest.Record{rec(1, "a", 9), rec(20, "a", 12), rec(30, "a", 8.5), rec(31, "a", 1)},
			want:    "4:a,RAISE,9 4:a,CLEAR,1",
		},
		{
			name: "a hold is cancelled when the condition stops holding", config: held,
			records: []optest.Record{rec(1, "a", 9), rec(30, "a", 8), rec(31, "a", 9), rec(60, "a", 9), rec(61, "b", 1)},
			want:    "5:a,RAISE,9",
		},
		{
			name: "null neither begins nor cancels nor clears", config: held,
			records: []optest.Record{rec(0, "a", nil), rec(1, "a", 9), rec(15, "a", nil), rec(31, "a", nil), rec(40, "a", nil)},
			want:    "4:a,RAISE,9",
		},
		{
			name: "holds end by deadline, then key", config: held,
			records: []optest.Record{rec(1, "c", 9), rec(2, "b", 9), rec(2, "a", 9), rec(99, "d", 1)},
			want:    "4:c,RAISE,9 4:a,RAISE,9 4:b,RAISE,9",
		},
		{
			name: "without clear it clears when raise is false", config: noClear,
			records: []optest.Record{rec(1, "a", 9), rec(2, "a", nil), rec(3, "a", 8)},
			want:    "1:a,RAISE,9 3:a,CLEAR,8",
		},
		{
			name: "a latch stays until the explicit clear, and while raise is true", config: latched,
			records: []optest.Record{rec(1, "a", 9), rec(2, "a", 1), reset(3, 9), reset(4, 2)},
			want:    "1:a,RAISE,9 4:a,CLEAR,2",
		},
		{
			name: "without latch clear wins over raise", config: unlatched,
			records: []optest.Record{rec(1, "a", 9), reset(3, 9)},
			want:    "1:a,RAISE,9 2:a,CLEAR,9",
		},
		{
			name: "what cannot be judged is refused and changes nothing", config: held,
			records: []optest.Record{rec(1, "a", 9), rec(2, "a", "text"), rec(31, "a", 9)},
			want:    "3:a,RAISE,9", dead: "2:expression",
		},
		{
			name: "one key too many; a clear key is none", config: limited,
			records: []optest.Record{rec(1, "a", 9), rec(2, "b", 9), rec(3, "a", 1), rec(4, "b", 9), rec(40, "b", 9)},
			want:    "5:b,RAISE,9", dead: "2:max_keys",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewAlarm(c.config) }}, c.records)
			if got := show(result.Ports[0], outKey, outTransition, outValue); got != c.want {
				t.Errorf("reported %s, want %s", got, c.want)
			}
			if got := showDead(result.Dead); got != c.dead {
				t.Errorf("dead letters %s, want %s", got, c.dead)
			}
		})
	}
}

func TestHeldRaiseStandsAtItsDeadlineWithTheTimeThatBeganIt(t *testing.T) {
	c := alarmConfig("value > 8", "")
	c.HoldNs = 30
	rows := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewAlarm(c) }}, []optest.Record{rec(5, "a", 9), rec(90, "b", 1)}).Ports[0]
	want := pipeline.At{Pos: 2, Phase: pipeline.Before, Deadline: 35}
	if len(rows) != 1 || rows[0].At != want || rows[0].Time != 5 {
		t.Errorf("got %+v, want one row at %+v with event time 5", rows, want)
	}
}

func TestARowMadeByATimerBeginsItsHoldAtThatDeadline(t *testing.T) {
	c := alarmConfig("value > 8", "")
	c.HoldNs = 30
	var table tables
	op := ops.NewAlarm(c)
	if err := op.Open(&table); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 1)
	out.Now = pipeline.Stamp{Elapsed: 1000}
	out.At = pipeline.At{Pos: 1, Phase: pipeline.Before, Deadline: 100}
	op.Process(0, &pipeline.Row{At: out.At, Slots: rec(0, "a", 9).Slots}, out)
	if due, _ := op.Timers(); due != 130 {
		t.Errorf("the hold ends at %d, want 130", due)
	}
}
