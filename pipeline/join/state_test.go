package join_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
)

type tables struct{ list []*state.Table }

func (t *tables) Table(spec state.Spec) (*state.Table, error) {
	t.list = append(t.list, state.New(spec))
	return t.list[len(t.list)-1], nil
}

func TestStateThatIsNotReadableIsRefused(t *testing.T) {
	interval := func() pipeline.Operator {
		return join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false)})
	}
	ttl := func() pipeline.Operator {
		return join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false), TTL: 1})
	}
	hopping := func() pipeline.Operator {
		return join.NewWindowed(join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{SizeMs: 10, SlideMs: 5}})
	}
	latest := func() pipeline.Operator {
		return join.NewLatest(join.LatestConfig{Sides: sides(), Output: output(false)})
	}
	sub := strings.Repeat("\x00", 21)
	for name, c := range map[string]struct {
		op            func() pipeline.Operator
		table         int
		key, sub, val string
	}{
		"short subkey":        {interval, 0, "k", "short", "\x00\x00"},
		"third side":          {interval, 0, "k", "\x02" + sub[1:], "\x00\x00"},
		"empty":               {interval, 0, "k", sub, ""},
		"unknown flags":       {interval, 0, "k", sub, "\x08\x00"},
		"elapsed is cut":      {ttl, 0, "k", sub, "\x02\x00"},
		"elapsed without ttl": {interval, 0, "k", sub, "\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"ttl without elapsed": {ttl, 0, "k", sub, "\x00\x00"},
		"row is cut":          {interval, 0, "k", sub, "\x00\x02\x00"},
		"row of other width":  {interval, 0, "k", sub, "\x00\x01\x00"},
		"latest is cut":       {latest, 0, "k", "", "\x02\x00"},
		"latest of one slot":  {latest, 0, "k", "", "\x01\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			op, have := c.op(), &tables{}
			if err := op.Open(have); err != nil {
				t.Fatal(err)
			}
			if err := have.list[c.table].Load([]byte(c.key), []byte(c.sub), []byte(c.val)); err != nil {
				t.Fatal(err)
			}
			if err := op.Restored(); !errors.Is(err, join.ErrState) {
				t.Errorf("restored with %v, want %v", err, join.ErrState)
			}
		})
	}
	t.Run("next window", func(t *testing.T) {
		op, have := hopping(), &tables{}
		if err := op.Open(have); err != nil {
			t.Fatal(err)
		}
		for i, entry := range [][3]string{{"k", sub, "\x00\x02\x00\x00"}, {"k", "", "short"}} {
			if err := have.list[i].Load([]byte(entry[0]), []byte(entry[1]), []byte(entry[2])); err != nil {
				t.Fatal(err)
			}
		}
		if err := op.Restored(); !errors.Is(err, join.ErrState) {
			t.Errorf("restored with %v, want %v", err, join.ErrState)
		}
	})
}

func TestConfigsAreValidated(t *testing.T) {
	good := join.Windows{SizeMs: 10, SlideMs: 10}
	windowed := func(w join.Windows) join.WindowedConfig {
		return join.WindowedConfig{Sides: sides(), Output: output(true), Windows: w}
	}
	for name, c := range map[string]interface{ Validate() error }{
		"negative within":     join.IntervalConfig{Sides: sides(), Output: output(false), BeforeMs: -1},
		"negative ttl":        join.IntervalConfig{Sides: sides(), Output: output(false), TTL: -1},
		"no key":              join.IntervalConfig{Output: join.Output{}},
		"unknown type":        join.IntervalConfig{Sides: sides(), Output: output(false), Type: 7},
		"field from nowhere":  join.IntervalConfig{Sides: sides(), Output: join.Output{Width: 1, Fields: []join.Field{{From: join.FromLeft, Index: 9}}}},
		"width":               join.IntervalConfig{Sides: sides(), Output: join.Output{Width: 9, Fields: []join.Field{{From: join.FromLeft}}}},
		"full latest":         join.LatestConfig{Sides: sides(), Output: output(false), Type: join.Full},
		"no size":             windowed(join.Windows{}),
		"offset over slide":   windowed(join.Windows{SizeMs: 10, SlideMs: 5, OffsetMs: 5}),
		"too many windows":    windowed(join.Windows{SizeMs: 1 << 40, SlideMs: 1}),
		"session with size":   windowed(join.Windows{GapMs: 5, SizeMs: 5}),
		"negative max_keys":   join.WindowedConfig{Sides: sides(), Output: output(true), Windows: good, MaxKeys: -1},
		"lookup without file": join.LookupConfig{Key: []int{0}},
	} {
		if err := c.Validate(); !errors.Is(err, join.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, join.ErrConfig)
		}
	}
	if err := windowed(good).Validate(); err != nil {
		t.Error(err)
	}
}

// TestColumnsThatFailAreRefused: the joined row is a dead letter, and the rows stay held.
func TestColumnsThatFailAreRefused(t *testing.T) {
	prog, err := expr.Compile("div(10, key)", twoFields{})
	if err != nil {
		t.Fatal(err)
	}
	c := join.IntervalConfig{Sides: sides(), AfterMs: 5, Output: join.Output{Fields: output(false).Fields, Columns: []join.Column{{Slot: 0, Prog: prog}}, Width: 1}}
	row := func(input int, seq int64) optest.Record {
		r := rec(input, 1, "", seq)
		r.Slots[optest.SlotKey] = pipeline.IntValue(0)
		return r
	}
	result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator { return join.NewInterval(c) }}, []optest.Record{row(join.Left, 1), row(join.Right, 2), row(join.Right, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Ports[0]) != 0 || len(result.Dead) != 2 || result.Dead[1].Reason != "expression" || result.Dead[1].Row.Slots[2].Int() != 3 {
		t.Errorf("%d rows, dead letters %+v", len(result.Ports[0]), result.Dead)
	}
}

type twoFields struct{}

func (twoFields) Field(pipeline.Path) (int, pipeline.Kind, error) { return 0, pipeline.Int, nil }
