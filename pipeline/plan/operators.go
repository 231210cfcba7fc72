package plan

import "github.com/weirstream/weir/pipeline"

// Operators are the parts of a step that pipeline/ops has besides those in StepSpec.
type Operators struct {
	Changed  *ChangedSpec
	Lag      *LagSpec
	Delta    *DeltaSpec
	Counter  *CounterSpec
	ZScore   *ZScoreSpec
	Throttle *ThrottleSpec
	Sample   *SampleSpec
	Absence  *AbsenceSpec
	Flatten  *FlattenSpec
	Cast     *CastSpec
	Split    *SplitSpec
}

// Kinds of these steps.
const (
	KindChanged  = "changed"
	KindLag      = "lag"
	KindDelta    = "delta"
	KindCounter  = "counter"
	KindZScore   = "zscore"
	KindThrottle = "throttle"
	KindSample   = "sample"
	KindAbsence  = "absence"
	KindFlatten  = "flatten"
	KindCast     = "cast"
	KindSplit    = "split"
)

// given are the kinds whose part is there.
func (o *Operators) given() (kinds []string) {
	for _, k := range []struct {
		name string
		is   bool
	}{
		{KindChanged, o.Changed != nil}, {KindLag, o.Lag != nil}, {KindDelta, o.Delta != nil}, {KindCounter, o.Counter != nil},
		{KindZScore, o.ZScore != nil}, {KindThrottle, o.Throttle != nil}, {KindSample, o.Sample != nil}, {KindAbsence, o.Absence != nil},
		{KindFlatten, o.Flatten != nil}, {KindCast, o.Cast != nil}, {KindSplit, o.Split != nil},
	} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// ChangedSpec passes a row when its value differs from that of the last row passed.
type ChangedSpec struct {
	Pos   Pos
	Value Text
}

// LagSpec adds the value that the row N rows before had.
type LagSpec struct {
	Pos   Pos
	Value Text
	N     int
	As    Text // column
}

// DeltaSpec adds the value less the one before.
type DeltaSpec struct {
	Pos   Pos
	Value Text
	As    Text
}

// CounterSpec adds by how much a counter rose, and how fast.
type CounterSpec struct {
	Pos          Pos
	Value        Text
	As           Text
	RateNs       int64 // 0: no rate
	RateAs       Text
	WrapLast     uint64 // largest value before the wrap; 0: none
	StepMax      uint64 // 0: half of the values
	StepPos      Pos
	ResetUnknown bool
}

// ZScoreSpec passes the outliers.
type ZScoreSpec struct {
	Pos   Pos
	Value Text
	N     int
	Limit float64
}

// ThrottleSpec passes at most one row per interval.
type ThrottleSpec struct {
	IntervalNs int64
	Pos        Pos
}

// SampleSpec passes each n-th row.
type SampleSpec struct {
	Pos   Pos
	Every int
}

// AbsenceSpec tells when a key falls silent and when it is back.
type AbsenceSpec struct {
	Pos       Pos
	AfterNs   int64
	EventTime bool
}

// FlattenSpec makes a row of each element of an array.
type FlattenSpec struct {
	Pos          Pos
	Field        Text
	As           Text
	Index        Text // column, "": none
	Fields       []ElementSpec
	ElementsMax  int
	Time         Text // field of the element, "": none
	Unit         Text
	MinMs, MaxMs int64
}

// ElementSpec declares a field of an element. Kind is Null for "any"; Scalar: anything but an object or array.
type ElementSpec struct {
	Name   Text
	Kind   pipeline.Kind
	Scalar bool
}

// CastSpec gives fields another type.
type CastSpec struct {
	Pos    Pos
	Fields []CastField
}

// CastField is one of them.
type CastField struct {
	Name Text
	Type string // bool, int, uint, float, string
}

// SplitSpec sends rows to ports: by conditions, or by the share of their key.
type SplitSpec struct {
	Pos   Pos
	Ports []ColumnSpec // name and condition
	Share bool         // by the key, not by conditions
	Parts int          // of ops.ShareParts
	On    []Text
}

// The ports of a split besides its conditions.
const (
	PortIn   = "in"
	PortRest = "rest"
	portLate = "late"
)
