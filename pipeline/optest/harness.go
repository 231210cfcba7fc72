// Package optest runs one operator over recorded rows as the engine does (pipeline/DESIGN.md, "Total order"), without
// tasks and batches: ticks, rows and watermarks one by one, with checkpoints, aborted ones and restores between them.
// Tests of operators use it; nothing else does.
package optest

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Record is one row that comes in, at a position of its own.
type Record struct {
	Input   int
	Elapsed int64 // ns, the stamp
	Wall    int64 // ms, the stamp
	Time    int64 // ms, pipeline.NoTime for none; it moves the watermark
	Bare    bool  // no row comes at this position, the clock alone
	Slots   []pipeline.Value
}

// Config is an operator and the time it lives in.
type Config struct {
	New              func() pipeline.Operator
	Ports            int
	OutOfOrdernessMs int64
	// Between is asked behind each record what happens before the next; nil: nothing.
	Between func(record int) Checkpoint
	// Table makes the tables of each life; nil: in memory.
	Table func(state.Spec) *state.Table
	// Saved is called with what a committed checkpoint and those before it hold of the tables; nil: nobody wants to know.
	Saved func(image string)
	// Keyed: the step may run in instances. What its timers emit must name them (Out.SetTimer), in their order; else it panics.
	Keyed bool
	// EarlyWatermark is the planted fault "the watermark of a batch is applied before its rows": the rows per batch. (Applied
	// before the one row that moves it, a watermark changes nothing: that row lies at or behind it.)
	EarlyWatermark int
}

// Checkpoint is what happens between two records.
type Checkpoint int

const (
	None    Checkpoint = iota
	Commit             // a checkpoint; the operator goes on
	Abort              // a checkpoint that fails; its changes belong to the next one
	Restore            // a checkpoint, and a new operator that begins from it
	Crash              // a new operator begins from the last committed checkpoint and sees again what came since
)

// Result is all that an operator made.
type Result struct {
	Ports    [][]pipeline.Row
	Dead     []pipeline.DeadRow
	Counters pipeline.Counters
}

// run is an operator under way. saved is what the last committed checkpoint holds.
type run struct {
	c         Config
	op        pipeline.Operator
	out       *pipeline.Out
	tables    []*state.Table
	watermark int64
	timeMax   int64
	begun     bool
	ticked    int64 // elapsed time up to which timers have fired
	reached   int64 // elapsed time of the last row
	saved     checkpoint
	result    Result
	ties      pipeline.Ties
}

type checkpoint struct {
	tables    map[string]map[entryKey][]byte
	record    int // the first record behind it
	watermark int64
	timeMax   int64
	begun     bool
	ticked    int64 // -1: the engine would not know
	reached   int64
	result    Result
}

type entryKey struct{ key, sub string }

// Run feeds the records and then ends event time. An error is one of the operator's Open or Restored, or output that
// breaks the total order.
func Run(c Config, records []Record) (Result, error) {
	r := &run{c: c, watermark: pipeline.MinWatermark, timeMax: pipeline.MinWatermark, ticked: -1, reached: -1}
	r.saved = checkpoint{tables: map[string]map[entryKey][]byte{}, watermark: r.watermark, timeMax: r.timeMax, ticked: -1, reached: -1}
	r.saved.result.Ports = make([][]pipeline.Row, c.Ports)
	if err := r.restore(); err != nil {
		return Result{}, err
	}
	done := 0 // Between is asked once per record, however often a crash repeats it
	for i := 0; i < len(records); i++ {
		if n := c.EarlyWatermark; n > 0 && i%n == 0 {
			for j := i; j < min(i+n, len(records)); j++ {
				r.moveWatermark(pipeline.Position(i+1), records[j].Time)
			}
		}
		r.feed(pipeline.Position(i+1), &records[i])
		if c.Between == nil || i < done {
			continue
		}
		done = i + 1
		next, err := r.between(c.Between(i), i+1)
		if err != nil {
			return Result{}, err
		}
		i = next - 1
	}
	r.mark(pipeline.Position(len(records)+1), pipeline.MaxWatermark)
	r.collect()
	return r.result, inOrder(r.result)
}

// feed is one record: the tick, the row, its watermark.
func (r *run) feed(pos pipeline.Position, rec *Record) {
	r.tick(pos, pipeline.Stamp{Elapsed: rec.Elapsed, Wall: rec.Wall})
	if rec.Bare {
		return
	}
	row := pipeline.Row{At: pipeline.At{Pos: pos, Phase: pipeline.During}, Time: rec.Time, Slots: rec.Slots}
	r.out.At = row.At
	if r.c.Keyed {
		r.out.Cause(pipeline.InputTie(int(pos)))
	}
	r.out.Counters.In++
	r.op.Process(rec.Input, &row, r.out)
	r.reached = rec.Elapsed
	r.moveWatermark(pos, rec.Time)
}

func (r *run) tick(pos pipeline.Position, now pipeline.Stamp) {
	r.out.Now = now
	if c, ok := r.op.(pipeline.Clocked); ok {
		c.Tick(now)
	}
	if due, _ := r.op.Timers(); due <= now.Elapsed && now.Elapsed > r.ticked {
		r.out.At = pipeline.At{Pos: pos, Phase: pipeline.Before}
		r.timers()
		r.op.Elapsed(now, r.out)
	}
	r.ticked = max(r.ticked, now.Elapsed)
	for _, t := range r.tables {
		t.SetNow(now.Elapsed)
	}
}

func (r *run) moveWatermark(pos pipeline.Position, time int64) {
	if time == pipeline.NoTime || r.begun && time <= r.timeMax {
		return
	}
	r.timeMax, r.begun = time, true
	r.mark(pos, time-r.c.OutOfOrdernessMs)
}

func (r *run) mark(pos pipeline.Position, watermark int64) {
	if watermark <= r.watermark {
		return
	}
	r.watermark = watermark
	r.out.At = pipeline.At{Pos: pos, Phase: pipeline.After}
	r.timers()
	r.op.Watermark(watermark, r.out)
}

// timers says that the next call fires some.
func (r *run) timers() {
	if r.c.Keyed {
		r.out.CauseTimers()
	}
}

// between does what was asked for and gives the record to go on with.
func (r *run) between(what Checkpoint, next int) (int, error) {
	r.collect()
	switch what {
	case Commit, Restore:
		if err := r.commit(next); err != nil {
			return 0, err
		}
	case Abort:
		for _, t := range r.tables {
			t.Freeze().Abort()
		}
	}
	if what != Restore && what != Crash {
		return next, nil
	}
	elapsed, eventTime := r.op.Timers()
	if err := r.restore(); err != nil {
		return 0, err
	}
	if e, w := r.op.Timers(); what == Restore && (e != elapsed || w != eventTime) {
		return 0, fmt.Errorf("timers after the restore are %d and %d, were %d and %d", e, w, elapsed, eventTime)
	}
	return r.saved.record, nil
}

// commit adds what changed to the saved checkpoint.
func (r *run) commit(next int) error {
	for _, t := range r.tables {
		saved := r.saved.tables[t.Spec().Name]
		f := t.Freeze()
		err := f.Encode(func(key, sub, val []byte, deleted bool) error {
			k := entryKey{string(key), string(sub)}
			if deleted {
				delete(saved, k)
				return nil
			}
			saved[k] = slices.Clone(val)
			return nil
		})
		if err != nil {
			return fmt.Errorf("encode table %s: %w", t.Spec().Name, err)
		}
		f.Commit()
	}
	r.saved.record, r.saved.watermark, r.saved.timeMax, r.saved.begun = next, r.watermark, r.timeMax, r.begun
	r.saved.ticked, r.saved.reached = -1, r.reached
	if due, _ := r.op.Timers(); due != pipeline.NoDeadline || r.ages() {
		r.saved.ticked = r.ticked
	}
	r.saved.result = r.result.clone()
	if r.c.Saved != nil {
		r.c.Saved(r.saved.image())
	}
	return nil
}

// restore begins anew from the saved checkpoint.
func (r *run) restore() error {
	r.op, r.tables = r.c.New(), nil
	r.out = pipeline.NewOut("under test", r.c.Ports)
	if r.c.Keyed {
		r.out.Track(&r.ties, 1)
	}
	r.result = r.saved.result.clone()
	r.out.Counters = r.result.Counters
	if err := r.op.Open(r); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for _, t := range r.tables {
		if r.saved.tables[t.Spec().Name] == nil {
			r.saved.tables[t.Spec().Name] = map[entryKey][]byte{}
		}
		for k, val := range r.saved.tables[t.Spec().Name] {
			if err := t.Load([]byte(k.key), []byte(k.sub), val); err != nil {
				return fmt.Errorf("load table %s: %w", t.Spec().Name, err)
			}
		}
	}
	for _, t := range r.tables {
		t.SetNow(max(r.saved.ticked, r.saved.reached))
	}
	if err := r.op.Restored(); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	r.reached = r.saved.reached
	r.timeMax, r.begun, r.ticked, r.watermark = r.saved.timeMax, r.saved.begun, r.saved.ticked, pipeline.MinWatermark
	if r.saved.watermark > r.watermark { // the engine repeats it, in a phase of its own
		r.watermark = r.saved.watermark
		r.out.At = pipeline.At{Pos: pipeline.Position(r.saved.record), Phase: pipeline.During}
		r.op.Watermark(r.watermark, r.out)
	}
	return nil
}

// Table implements pipeline.Tables.
func (r *run) Table(spec state.Spec) (*state.Table, error) {
	t := r.table(spec)
	r.tables = append(r.tables, t)
	return t, nil
}

func (r *run) table(spec state.Spec) *state.Table {
	if r.c.Table == nil {
		return state.New(spec)
	}
	return r.c.Table(spec)
}

// ages tells whether the operator is an Aging with something that ages.
func (r *run) ages() bool {
	_, ok := r.op.(pipeline.Aging)
	return ok && slices.ContainsFunc(r.tables, func(t *state.Table) bool { return t.Spec().TTL > 0 })
}

// collect takes what the operator emitted since the last call, as the end of a batch does.
func (r *run) collect() {
	if r.ages() {
		r.op.(pipeline.Aging).Aged(r.out)
	}
	for p, rows := range r.out.Ports {
		r.result.Ports[p] = append(r.result.Ports[p], rows...)
	}
	r.result.Dead = append(r.result.Dead, r.out.Dead...)
	r.result.Counters = r.out.Counters
	r.out.Reset()
	r.ties.Reset()
}

func (r Result) clone() Result {
	ports := slices.Clone(r.Ports)
	for i := range ports {
		ports[i] = slices.Clone(ports[i])
	}
	return Result{Ports: ports, Dead: slices.Clone(r.Dead), Counters: r.Counters}
}

// inOrder checks that no port goes back in the total order.
func inOrder(r Result) error {
	for p, rows := range r.Ports {
		for i := 1; i < len(rows); i++ {
			if rows[i-1].At.Compare(rows[i].At) > 0 {
				return fmt.Errorf("port %d, row %d: %+v comes after %+v", p, i, rows[i].At, rows[i-1].At)
			}
		}
	}
	return nil
}
