package plan

import (
	"github.com/weirstream/weir/pipeline/codec"
)

// builtSink is a compiled sink.
type builtSink struct {
	spec    *SinkSpec
	columns []codec.Column
	whole   int
	table   []TableColumn // postgres
	points  []PointColumn // influx
	commit  string
	sure    bool // every step before is deterministic
}

func (c *compiler) sink(i int) {
	s := c.spec.Sinks[i]
	t := c.sinkInput[i]
	if t == nil {
		return
	}
	in := c.edgeOf(*t)
	if in == nil {
		return // what feeds it has a problem
	}
	b := &builtSink{spec: s, commit: CommitCheckpoint}
	if step := replacesField(in.scope); step != "" {
		c.warnings.Add(s.From.Pos, "", "put a select step before it to write columns", "sink %s writes the document as it came: what %s cast does not show in it", s.UID, step)
	}
	cols, whole := in.scope.columns()
	b.whole = whole
	for _, col := range cols {
		b.columns = append(b.columns, codec.Column{Name: col.Name, Slot: col.Slot})
	}
	if s.Commit.Value != "" {
		b.commit = s.Commit.Value
	}
	if s.Postgres != nil {
		b.table = c.tableColumns(s, cols, whole)
	}
	if s.Objects != nil && s.Objects.Format.Value == FormatCSV {
		c.checkCSV(s, cols, whole)
	}
	if s.MQTT != nil {
		c.checkTopic(s, cols, whole)
	}
	if s.Influx != nil {
		b.points = c.pointColumns(s, *t, in.timed, cols, whole)
	}
	blocker := c.nonDeterministic(*t)
	b.sure = blocker == nil
	if b.commit == CommitImmediate {
		if blocker != nil {
			c.problems.Add(s.Commit.Pos, "", "use commit: checkpoint", "sink %s cannot commit immediately: step %s may give other results when it is replayed", s.UID, blocker.UID)
		}
	}
	if c.spec.AtLeastOnce {
		if b.commit == CommitImmediate {
			c.warnings.Add(s.Commit.Pos, "", "", "sink %s: checkpoint.mode at-least-once wins over commit", s.UID)
		}
		b.commit = CommitAtLeastOnce
	}
	c.sinks[i] = b
}

// nonDeterministic finds a step before t that is not deterministic, nil when all are.
func (c *compiler) nonDeterministic(t target) *StepSpec {
	if t.step < 0 {
		return nil
	}
	if b := c.steps[t.step]; b != nil && !b.deterministic() {
		return b.spec
	}
	for _, in := range c.stepInputs[t.step] {
		if s := c.nonDeterministic(in); s != nil {
			return s
		}
	}
	return nil
}

// Guarantee is what the sink promises: exactly-once or at-least-once.
func (s *Sink) Guarantee() string {
	if s.Commit == CommitAtLeastOnce || s.Spec.HTTP != nil && s.Spec.HTTP.Protocol == "plain" || s.Spec.MQTT != nil {
		return "at-least-once"
	}
	return "exactly-once"
}
