package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/agent/upgrade"
)

// errCut is a power cut in the middle of a Stage.
var errCut = errors.New("the power was cut")

// crashes cuts the power before and behind each call of an upgrade, and within Stage, and then does what the record would have it do: the calls up to there again, and the rest. Whatever runs in between was whole.
func crashes(ctx context.Context, fresh func() (*Machine, error)) (wrong error) {
	for _, back := range []bool{false, true} {
		for at := range len(calls(back)) {
			for _, how := range []string{"before", "within", "behind"} {
				m, err := fresh()
				if err == nil {
					err = crashAt(ctx, m, back, at, how)
				}
				if err != nil {
					wrong = errors.Join(wrong, fmt.Errorf("power cut %s call %d (%s), going back %v: %w", how, at, calls(back)[at].name, back, err))
				}
			}
		}
	}
	return wrong
}

// call is one act, and the slot that runs behind a start.
type call struct {
	name string
	do   func(ctx context.Context, m *Machine, active, standby upgrade.Slot, a upgrade.Artifact) error
	runs []string // which of active and standby may run, when it was cut here
	boot bool     // a start is part of it
}

func calls(back bool) []call {
	stage := call{name: "stage", runs: []string{"active"}, do: func(ctx context.Context, m *Machine, _, standby upgrade.Slot, a upgrade.Artifact) error {
		return m.Stage(ctx, standby, a, nil)
	}}
	activate := call{name: "activate", runs: []string{"active", "standby"}, boot: true, do: func(ctx context.Context, m *Machine, _, standby upgrade.Slot, _ upgrade.Artifact) error {
		return m.Activate(ctx, standby, upgrade.TriesNew+3)
	}}
	commit := call{name: "commit", runs: []string{"standby"}, do: func(ctx context.Context, m *Machine, _, _ upgrade.Slot, _ upgrade.Artifact) error {
		return m.Commit(ctx)
	}}
	revert := call{name: "revert", runs: []string{"active", "standby"}, boot: true, do: func(ctx context.Context, m *Machine, active, _ upgrade.Slot, _ upgrade.Artifact) error {
		return m.Revert(ctx, active)
	}}
	if back {
		return []call{stage, activate, revert}
	}
	return []call{stage, activate, commit}
}

func crashAt(ctx context.Context, m *Machine, back bool, at int, how string) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	a := m.artifact("one")
	was, err := m.Runs()
	if err != nil {
		return err
	}
	program := map[upgrade.Slot]string{active: was, standby: a.Target.SHA256}
	for i, c := range calls(back) {
		if i == at {
			cut := a
			if how == "within" {
				cut.ReaderAt = &cutReader{ReaderAt: a, left: a.Target.Bytes / 2}
			}
			if how != "before" {
				err := c.do(ctx, m, active, standby, cut)
				if err != nil && !(how == "within" && c.name == "stage") {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
			runs, err := m.Boot()
			if err != nil {
				return err
			}
			is, err := m.Runs()
			if err != nil || is != program[runs] {
				return fmt.Errorf("slot %s runs %q: %w", runs, is, errors.Join(err, errors.New("nothing whole")))
			}
			if !allowed(c, runs, active, standby) {
				return fmt.Errorf("slot %s runs behind the power cut, with %s active", runs, active)
			}
		}
		if err := c.do(ctx, m, active, standby, a); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.boot {
			want := standby
			if c.name == "revert" {
				want = active
			}
			if err := m.boots(ctx, want, program[want]); err != nil {
				return fmt.Errorf("behind %s: %w", c.name, err)
			}
		}
	}
	want := standby
	if back {
		want = active
	}
	for range upgrade.TriesNew + 5 {
		if err := m.boots(ctx, want, program[want]); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

func allowed(c call, runs, active, standby upgrade.Slot) bool {
	for _, r := range c.runs {
		if r == "active" && runs == active || r == "standby" && runs == standby {
			return true
		}
	}
	return false
}

// cutReader ends in the middle.
type cutReader struct {
	io.ReaderAt
	left int64
}

func (c *cutReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= c.left {
		return c.ReaderAt.ReadAt(p, off)
	}
	if off >= c.left {
		return 0, errCut
	}
	n, err := c.ReaderAt.ReadAt(p[:c.left-off], off)
	return n, errors.Join(err, errCut)
}
