package upgradetest

import (
	"bytes"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

func fakeMachine(fault string) func() (*Machine, error) {
	return func() (*Machine, error) {
		f := NewFake()
		f.Fault = fault
		return &Machine{
			Backend:  f,
			Boot:     func() (upgrade.Slot, error) { return f.Boot(), nil },
			Runs:     func() (string, error) { return f.Runs(), nil },
			Artifact: func(kind string) []byte { return bytes.Repeat([]byte(kind), 300) },
		}, nil
	}
}

func TestFakeConforms(t *testing.T) {
	if err := Check(t.Context(), fakeMachine("")); err != nil {
		t.Error(err)
	}
}

// TestSuiteFindsFaults: each of the fake's planted mistakes.
func TestSuiteFindsFaults(t *testing.T) {
	for _, fault := range []string{
		"booted is what was activated", "the slot that runs is written to", "a slot that is written to may run", "nothing is verified", "staging activates", "activation commits", "commit does nothing", "revert does nothing",
		"abort leaves it", "tries are not counted",
	} {
		err := Check(t.Context(), fakeMachine(fault))
		if err == nil {
			t.Errorf("planted %q is not found", fault)
			continue
		}
		t.Logf("%s: %.120s", fault, err)
	}
}
