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
		"changed, no key":      {ops.NewChanged(ops.ChangedConfig{Value: optest.Expr("value")}), "k", "\x99"},
		"changed, two keys":    {ops.NewChanged(ops.ChangedConfig{Value: optest.Expr("value")}), "k", "\x00\x00"},
		"lag, none":            {ops.NewLag(ops.LagConfig{N: 1}), "k", "\x00"},
		"lag, cut":             {ops.NewLag(ops.LagConfig{N: 1}), "k", "\x01\x02abc"},
		"delta, no number":     {ops.NewDelta(ops.DeltaConfig{}), "k", "\x05abcdefgh"},
		"counter, cut":         {ops.NewCounter(ops.CounterConfig{}), "k", "\x02abcdefgh"},
		"zscore, other n":      {ops.NewZScore(zscoreConfig(3, 1)), "k", "\x01\x00\x00\x00\x01\x00\x00\x00abcdefghabcdefgh"},
		"throttle":             {ops.NewThrottle(ops.ThrottleConfig{}), "k", "short"},
		"sample":               {ops.NewSample(ops.SampleConfig{}), "k", "short"},
		"absence, phase":       {ops.NewAbsence(absenceConfig(1, false)), "k", "\x03abcdefghabcdefgh"},
		"absence, cut":         {ops.NewAbsence(absenceConfig(1, true)), "k", "\x01abc"},
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
		"changed without value":       ops.ChangedConfig{},
		"changed with bad ttl":        ops.ChangedConfig{Value: value, Keyed: ops.Keyed{TTL: -1}},
		"lag without value":           ops.LagConfig{N: 1},
		"lag of 0":                    ops.LagConfig{Value: value},
		"lag too far":                 ops.LagConfig{Value: value, N: ops.LagMax + 1},
		"delta without value":         ops.DeltaConfig{},
		"counter without value":       ops.CounterConfig{RateSlot: -1},
		"counter without step":        ops.CounterConfig{Value: value, WrapLast: 9, RateSlot: -1},
		"counter without rate":        ops.CounterConfig{Value: value},
		"zscore without value":        ops.ZScoreConfig{N: 3},
		"zscore of 1":                 ops.ZScoreConfig{Value: value, N: 1},
		"zscore with bad limit":       ops.ZScoreConfig{Value: value, N: 2, Limit: -1},
		"throttle of 0":               ops.ThrottleConfig{},
		"sample of 0":                 ops.SampleConfig{},
		"absence of 0":                ops.AbsenceConfig{},
		"absence with bad limit":      ops.AbsenceConfig{After: 1, MaxKeys: -1},
		"absence without key columns": ops.AbsenceConfig{After: 1, Key: []int{0}},
		"flatten of 0":                ops.FlattenConfig{},
		"share of 0":                  ops.ShareConfig{Key: []int{0}},
		"share of all":                ops.ShareConfig{Key: []int{0}, Parts: ops.ShareParts},
		"share without key":           ops.ShareConfig{Parts: 1},
		"sort with bad limit":         ops.SortConfig{MaxKeys: -1},
	} {
		if err := c.Validate(); !errors.Is(err, ops.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, ops.ErrConfig)
		}
	}
}
