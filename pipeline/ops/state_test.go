package ops_test

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
)

// tables keeps the one table of an operator.
type tables struct{ held *state.Table }

func (t *tables) Table(spec state.Spec) (*state.Table, error) {
	t.held = state.New(spec)
	return t.held, nil
}

func TestStateThatIsNotReadableIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		op       pipeline.Operator
		key, val string
	}{
		"deadband":             {newDeadband(), "k", "short"},
		"dedup":                {ops.NewDedup(ops.DedupConfig{}), "k", "long"},
		"alarm, empty":         {ops.NewAlarm(alarmConfig("value > 1", "")), "k", ""},
		"alarm, unknown phase": {ops.NewAlarm(alarmConfig("value > 1", "")), "k", "\x07"},
		"alarm, cut":           {ops.NewAlarm(alarmConfig("value > 1", "")), "k", "\x01abc"},
		"sort":                 {ops.NewSort(ops.SortConfig{}), "short", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var table tables
			if err := c.op.Open(&table); err != nil {
				t.Fatal(err)
			}
			if err := table.held.Load([]byte(c.key), nil, []byte(c.val)); err != nil {
				t.Fatal(err)
			}
			if err := c.op.Restored(); !errors.Is(err, ops.ErrState) {
				t.Errorf("restored with %v, want %v", err, ops.ErrState)
			}
		})
	}
}

func TestConfigsAreValidated(t *testing.T) {
	value := optest.Expr("value")
	for name, c := range map[string]interface{ Validate() error }{
		"deadband without value":      ops.DeadbandConfig{},
		"deadband with bad threshold": ops.DeadbandConfig{Value: value, Threshold: -1},
		"deadband with bad ttl":       ops.DeadbandConfig{Value: value, TTL: -1},
		"dedup without key":           ops.DedupConfig{},
		"dedup with bad limit":        ops.DedupConfig{Key: []*expr.Program{value}, MaxKeys: -1},
		"alarm without raise":         ops.AlarmConfig{},
		"alarm with bad hold":         ops.AlarmConfig{Raise: value, HoldNs: -1},
		"latch without clear":         ops.AlarmConfig{Raise: value, Latch: true},
		"alarm without key columns":   ops.AlarmConfig{Raise: value, Key: []int{0}},
		"sort with bad limit":         ops.SortConfig{MaxKeys: -1},
	} {
		if err := c.Validate(); !errors.Is(err, ops.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, ops.ErrConfig)
		}
	}
}
