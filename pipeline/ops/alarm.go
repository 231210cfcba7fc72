package ops

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/state"
)

// The transitions that an alarm reports.
const (
	TransitionRaise = "RAISE"
	TransitionClear = "CLEAR"
)

// AlarmConfig sets up an alarm. Raise and Clear give a bool or null; null says nothing and changes nothing.
type AlarmConfig struct {
	Key    []int         // slots
	Value  *expr.Program // what is reported with a transition; nil: null
	Raise  *expr.Program
	Clear  *expr.Program // nil: the alarm clears when Raise is false
	HoldNs int64         // elapsed ns for which Raise must hold before the alarm raises; 0: at once
	Latch  bool          // needs Clear, and a row that clears must not raise as well
	// The rows that come out: Width slots, the key columns in KeyOut (-1 leaves one out), then transition and value.
	Width                     int
	KeyOut                    []int
	TransitionSlot, ValueSlot int
	MaxKeys                   int // keys raised or pending at once; 0: no limit
}

// Validate names the field that is wrong.
func (c AlarmConfig) Validate() error {
	switch {
	case c.Raise == nil:
		return fmt.Errorf("%w: alarm: raise is missing", ErrConfig)
	case c.HoldNs < 0 || c.MaxKeys < 0:
		return fmt.Errorf("%w: alarm: hold is %d ns, max_keys %d, want 0 or more", ErrConfig, c.HoldNs, c.MaxKeys)
	case c.Latch && c.Clear == nil:
		return fmt.Errorf("%w: alarm: latch needs a clear condition", ErrConfig)
	case len(c.KeyOut) != len(c.Key):
		return fmt.Errorf("%w: alarm: %d key columns for %d keys", ErrConfig, len(c.KeyOut), len(c.Key))
	}
	return nil
}

// Alarm reports the transitions of a condition with hysteresis, per key, in the order of the rows. A key begins clear; it
// raises when Raise is true, and clears when Clear is. With a hold, Raise must hold for HoldNs of elapsed time: it is
// true at a row, and false at none until the deadline. The raise is then reported with value and event time of the
// row that began it. A clear is reported at once, with those of its row.
type Alarm struct {
	c      AlarmConfig
	alarms *state.Table
	holds  deadlines
	key    []byte
	entry  []byte
}

// NewAlarm makes an alarm from a valid config.
func NewAlarm(c AlarmConfig) *Alarm { return &Alarm{c: c, holds: newDeadlines()} }

// Open implements pipeline.Operator.
func (a *Alarm) Open(tables pipeline.Tables) (err error) {
	a.alarms, err = tables.Table(state.Spec{
		Name: "alarm", Kind: state.Value, Type: "ops.alarm", Version: 1, MaxKeys: a.c.MaxKeys,
	})
	if err != nil {
		return err
	}
	a.holds.beside(a.alarms)
	return nil
}

// Restored rebuilds the waiting holds.
func (a *Alarm) Restored() (err error) {
	a.alarms.Range(func(key, _, val []byte) bool {
		var s alarmState
		if s, err = parseAlarm(val); err == nil && s.phase == alarmPending {
			a.holds.set(key, s.deadline)
		}
		return err == nil
	})
	return err
}

// Process implements pipeline.Operator.
func (a *Alarm) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	raise, ok := a.condition(a.c.Raise, "raise", r, out)
	if !ok {
		return
	}
	clear := not(raise)
	if a.c.Clear != nil {
		if clear, ok = a.condition(a.c.Clear, "clear", r, out); !ok {
			return
		}
	}
	var value pipeline.Value
	if a.c.Value != nil {
		if value = a.c.Value.Eval(r.Slots); value.Kind == pipeline.Error {
			refuseValue(out, r, "alarm value", value)
			return
		}
	}
	a.key = appendKeySlots(a.key[:0], r.Slots, a.c.Key)
	switch phase := a.phase(a.key); {
	case phase == alarmRaised && clear == yes && !(a.c.Latch && raise == yes):
		a.alarms.Delete(a.key)
		a.emit(TransitionClear, a.key, r.Time, value, out)
	case phase == alarmClear && raise == yes:
		a.begin(r, value, out)
	case phase == alarmPending && raise == no:
		a.alarms.Delete(a.key)
		a.holds.cancel(a.key)
	}
}

// begin raises the alarm, or lets its hold begin.
func (a *Alarm) begin(r *pipeline.Row, value pipeline.Value, out *pipeline.Out) {
	s := alarmState{phase: alarmRaised}
	if a.c.HoldNs > 0 {
		s = alarmState{phase: alarmPending, deadline: out.Elapsed() + a.c.HoldNs, time: r.Time, value: value}
	}
	a.entry = appendAlarm(a.entry[:0], s)
	if err := a.alarms.Put(a.key, a.entry); err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	if s.phase == alarmPending {
		a.holds.set(a.key, s.deadline)
		return
	}
	a.emit(TransitionRaise, a.key, r.Time, value, out)
}

// Elapsed raises the alarms whose condition has held.
func (a *Alarm) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	for a.holds.earliest() <= now.Elapsed {
		key, at := a.holds.take()
		a.key = append(a.key[:0], key...)
		val, ok := a.alarms.Get(a.key)
		s, err := parseAlarm(val)
		if !ok || err != nil || s.phase != alarmPending {
			panic("BUG: a hold waits that the alarm table does not know")
		}
		s.value.Str = out.Text([]byte(s.value.Str))
		a.entry = appendAlarm(a.entry[:0], alarmState{phase: alarmRaised})
		if err := a.alarms.Put(a.key, a.entry); err != nil {
			panic("BUG: an alarm that is there cannot be one too many: " + err.Error())
		}
		out.SetTimer(at, 0, a.key)
		a.emit(TransitionRaise, a.key, s.time, s.value, out)
	}
}

// Watermark implements pipeline.Operator: alarms know elapsed time only.
func (a *Alarm) Watermark(int64, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (a *Alarm) Timers() (elapsed, eventTime int64) { return a.holds.earliest(), pipeline.NoDeadline }

func (a *Alarm) emit(transition string, key []byte, time int64, value pipeline.Value, out *pipeline.Out) {
	slots := out.Slots(a.c.Width)
	for _, slot := range a.c.KeyOut {
		v, rest, err := out.KeyValue(key)
		if err != nil {
			panic("BUG: an alarm has a key that was never written: " + err.Error())
		}
		key = rest
		if slot >= 0 {
			slots[slot] = v
		}
	}
	slots[a.c.TransitionSlot] = pipeline.StringValue(transition)
	slots[a.c.ValueSlot] = value
	out.Emit(0, time, slots)
}

func (a *Alarm) phase(key []byte) alarmPhase {
	if val, ok := a.alarms.Get(key); ok {
		return alarmPhase(val[0])
	}
	return alarmClear
}

// verdict is a three-valued condition.
type verdict uint8

const (
	unknown verdict = iota
	no
	yes
)

func not(v verdict) verdict {
	switch v {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

// condition evaluates raise or clear; ok is false when the row was refused.
func (a *Alarm) condition(e *expr.Program, what string, r *pipeline.Row, out *pipeline.Out) (verdict, bool) {
	switch v := e.Eval(r.Slots); {
	case v.Kind == pipeline.Bool && v.Bool():
		return yes, true
	case v.Kind == pipeline.Bool:
		return no, true
	case v.IsNull():
		return unknown, true
	default:
		refuseValue(out, r, what, v)
		return unknown, false
	}
}
