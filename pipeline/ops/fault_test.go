package ops_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
)

// forgetful is the planted fault "what is kept is in no table": a restore finds nothing.
type forgetful struct{ pipeline.Operator }

func (f forgetful) Open(pipeline.Tables) error { return f.Operator.Open(nowhere{}) }

type nowhere struct{}

func (nowhere) Table(spec state.Spec) (*state.Table, error) { return state.New(spec), nil }

// TestReplayFindsWhatIsForgotten: for each step with state, the property that TestReplayEquality holds it to can fail.
func TestReplayFindsWhatIsForgotten(t *testing.T) {
	k := byKey()
	value := optest.Expr("value")
	counter, absence, late := counterConfig(), absenceConfig(15, false), absenceConfig(15, true)
	for name, op := range map[string]func() pipeline.Operator{
		"changed": func() pipeline.Operator { return ops.NewChanged(ops.ChangedConfig{Keyed: k, Value: value}) },
		"lag": func() pipeline.Operator {
			return ops.NewLag(ops.LagConfig{Keyed: k, Carry: wide(1), Value: value, N: 2})
		},
		"delta":         func() pipeline.Operator { return ops.NewDelta(ops.DeltaConfig{Keyed: k, Carry: wide(1), Value: value}) },
		"counter":       func() pipeline.Operator { return ops.NewCounter(counter) },
		"zscore":        func() pipeline.Operator { return ops.NewZScore(zscoreConfig(3, 0.5)) },
		"throttle":      func() pipeline.Operator { return ops.NewThrottle(ops.ThrottleConfig{Keyed: k, Interval: 30}) },
		"sample":        func() pipeline.Operator { return ops.NewSample(ops.SampleConfig{Keyed: k, Every: 3}) },
		"absence":       func() pipeline.Operator { return ops.NewAbsence(absence) },
		"event absence": func() pipeline.Operator { return ops.NewAbsence(late) },
	} {
		found := func() bool {
			for seed := range 200 {
				records := rapid.Custom(drawRecords).Example(seed)
				whole, err := optest.Run(optest.Config{New: op, Ports: 2}, records)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				broken, err := optest.Run(optest.Config{New: func() pipeline.Operator { return forgetful{op()} }, Ports: 2, Between: func(i int) optest.Checkpoint {
					if i%5 == 4 {
						return optest.Restore
					}
					return optest.None
				}}, records)
				if err != nil || optest.Diff(whole, broken) != "" { // an error: the timers differ behind the restore
					return true
				}
			}
			return false
		}
		if !found() {
			t.Errorf("%s may forget everything and nobody notices", name)
		}
	}
}
