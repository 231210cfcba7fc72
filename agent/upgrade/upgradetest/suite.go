// Package upgradetest checks that a backend keeps what upgrade.Backend promises: each method can be repeated, ends with its context, leaves the slot that runs alone, and a crash before, within and
// behind each call leaves a machine that starts what it should.
package upgradetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirstream/weir/agent/upgrade"
)

// Machine is a backend with the machine around it.
type Machine struct {
	upgrade.Backend
	// Boot starts the machine, or the program, as after a power cut; the process before is gone. It gives the slot that runs. What the backend knew in memory is lost: Boot may put a new one into Backend.
	Boot func() (upgrade.Slot, error)
	// Runs is the sha256, hex, of the artifact that runs; anything else for what the machine was made with.
	Runs func() (string, error)
	// Artifact has what a program consists of; kind makes two of them differ. The suite asks for "one" and "two".
	Artifact func(kind string) []byte
	// Helper tells that who counts tries is weir-boot, not the backend: falling back is not asked of it here.
	Helper bool
	// Tries is how often the boot loader starts what is not committed, where Activate cannot tell it. 0: as often as it was activated for.
	Tries int
}

// tries is what the suite activates with.
const tries = 2

// Check runs the suite. fresh makes a new machine that runs what it was made with. It gives everything that is wrong.
func Check(ctx context.Context, fresh func() (*Machine, error)) error {
	var wrong []error
	for _, c := range []struct {
		name string
		f    func(context.Context, *Machine) error
	}{
		{"a way that goes well", goesWell}, {"twice each", twice}, {"fallback", fallsBack}, {"revert", reverts}, {"damaged artifacts", damaged}, {"the slot that runs", runsAlone}, {"an ended context", ended}, {"abort", aborts},
	} {
		m, err := fresh()
		if err == nil {
			err = c.f(ctx, m)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(append(wrong, crashes(ctx, fresh))...)
}

func (m *Machine) artifact(kind string) upgrade.Artifact {
	b := m.Artifact(kind)
	is := sha256.Sum256(b)
	return upgrade.Artifact{Target: upgrade.Target{Version: kind, SHA256: hex.EncodeToString(is[:]), Bytes: int64(len(b))}, ReaderAt: bytes.NewReader(b)}
}

// standby is a slot that does not run.
func (m *Machine) standby(ctx context.Context) (active, standby upgrade.Slot, err error) {
	caps, err := m.Probe(ctx)
	if err != nil {
		return "", "", fmt.Errorf("probe: %w", err)
	}
	if active, err = m.Booted(ctx); err != nil {
		return "", "", fmt.Errorf("booted: %w", err)
	}
	i := slices.IndexFunc(caps.Slots, func(s upgrade.Slot) bool { return s != active && s != upgrade.Factory })
	if i < 0 {
		return "", "", fmt.Errorf("of the slots %q none is free while %s runs", caps.Slots, active)
	}
	return active, caps.Slots[i], nil
}

// boots starts the machine and tells when another slot runs than want, or the backend says another.
func (m *Machine) boots(ctx context.Context, want upgrade.Slot, runs string) error {
	got, err := m.Boot()
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	said, err := m.Booted(ctx)
	if err != nil {
		return fmt.Errorf("booted: %w", err)
	}
	if got != want || said != got {
		return fmt.Errorf("slot %s runs, the backend says %s, want %s", got, said, want)
	}
	is, err := m.Runs()
	if err != nil || runs != "" && is != runs {
		return fmt.Errorf("slot %s runs %q, want %q: %w", got, is, runs, errors.Join(err, errors.New("not what was staged")))
	}
	return nil
}

func goesWell(ctx context.Context, m *Machine) error {
	for _, kind := range []string{"one", "two", "one"} {
		active, standby, err := m.standby(ctx)
		if err != nil {
			return err
		}
		was, err := m.Runs()
		if err != nil {
			return err
		}
		a := m.artifact(kind)
		last := 0
		if err := m.Stage(ctx, standby, a, func(p int) { last = p }); err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		if last < 0 || last > 1000 {
			return fmt.Errorf("progress %d of 1000", last)
		}
		if err := m.boots(ctx, active, was); err != nil {
			return fmt.Errorf("staged, not activated: %w", err)
		}
		if err := errors.Join(m.Activate(ctx, standby, tries), m.Restart(ctx)); err != nil {
			return fmt.Errorf("activate: %w", err)
		}
		if said, err := m.Booted(ctx); err != nil || said != active {
			return fmt.Errorf("activated, not started: the backend says that %s runs, %w", said, errors.Join(err, fmt.Errorf("and it is %s", active)))
		}
		if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
			return fmt.Errorf("activated: %w", err)
		}
		if err := m.Commit(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		for range tries + 2 {
			if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
				return fmt.Errorf("committed: %w", err)
			}
		}
	}
	return nil
}

// twice: a repeat of each call changes nothing.
func twice(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	a := m.artifact("one")
	err = errors.Join(m.Abort(ctx, standby), m.Abort(ctx, standby), m.Stage(ctx, standby, a, nil), m.Stage(ctx, standby, a, nil), m.Activate(ctx, standby, tries), m.Activate(ctx, standby, tries))
	if err != nil {
		return err
	}
	if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
		return err
	}
	if err := errors.Join(m.Commit(ctx), m.Commit(ctx)); err != nil {
		return err
	}
	if err := m.boots(ctx, standby, a.Target.SHA256); err != nil || active == upgrade.Factory {
		return err
	}
	if err := errors.Join(m.Revert(ctx, active), m.Revert(ctx, active)); err != nil {
		return err
	}
	return m.boots(ctx, active, "")
}

// fallsBack: what is not committed runs as often as it was activated for.
func fallsBack(ctx context.Context, m *Machine) error {
	caps, err := m.Probe(ctx)
	if err != nil || m.Helper || !caps.OwnBootCounter {
		return err
	}
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	a := m.artifact("one")
	if err := errors.Join(m.Stage(ctx, standby, a, nil), m.Activate(ctx, standby, tries)); err != nil {
		return err
	}
	starts := tries
	if m.Tries > 0 {
		starts = m.Tries
	}
	for range starts {
		if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
			return err
		}
	}
	for range 3 {
		if err := m.boots(ctx, active, ""); err != nil {
			return fmt.Errorf("behind %d starts: %w", starts, err)
		}
	}
	return nil
}

// reverts: from the new one and from the old one, committed or not.
func reverts(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	for i, a := range []upgrade.Artifact{m.artifact("one"), m.artifact("two"), m.artifact("one")} {
		if err := errors.Join(m.Stage(ctx, standby, a, nil), m.Activate(ctx, standby, tries)); err != nil {
			return err
		}
		if i > 0 {
			if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
				return err
			}
		}
		if i > 1 {
			if err := m.Commit(ctx); err != nil {
				return err
			}
		}
		if err := errors.Join(m.Revert(ctx, active), m.Restart(ctx)); err != nil {
			return fmt.Errorf("revert: %w", err)
		}
		for range 3 {
			if err := m.boots(ctx, active, ""); err != nil {
				return fmt.Errorf("reverted: %w", err)
			}
		}
	}
	return nil
}

// damaged: what is cut short, or is not what its target says, is refused, or never runs.
func damaged(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	for _, spoil := range []func(*upgrade.Artifact, []byte){
		func(a *upgrade.Artifact, b []byte) { a.ReaderAt = bytes.NewReader(b[:len(b)/2]) },
		func(a *upgrade.Artifact, b []byte) { b[len(b)/3] ^= 1; a.ReaderAt = bytes.NewReader(b) },
		func(a *upgrade.Artifact, _ []byte) { a.ReaderAt = broken{} },
	} {
		a := m.artifact("two")
		spoil(&a, bytes.Clone(m.Artifact("two")))
		_ = m.Stage(ctx, standby, a, nil) // it may find that out later: nothing whole lies there, and so nothing is activated
		if m.Activate(ctx, standby, tries) == nil {
			return errors.New("a damaged artifact was staged and activated")
		}
		if err := m.boots(ctx, active, ""); err != nil {
			return fmt.Errorf("refused: %w", err)
		}
	}
	return nil
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

// runsAlone: the slot that runs is neither written to nor taken away.
func runsAlone(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	a := m.artifact("one")
	if err := errors.Join(m.Stage(ctx, standby, a, nil), m.Activate(ctx, standby, tries)); err != nil {
		return err
	}
	if err := m.boots(ctx, standby, a.Target.SHA256); err != nil {
		return err
	}
	if err := m.Commit(ctx); err != nil {
		return err
	}
	if m.Stage(ctx, standby, m.artifact("two"), nil) == nil || m.Abort(ctx, standby) == nil || active == upgrade.Factory && m.Stage(ctx, active, a, nil) == nil {
		return errors.New("the slot that runs, or the factory's, was written to")
	}
	return m.boots(ctx, standby, a.Target.SHA256)
}

// ended: a call whose context has ended says so, and what it did is none.
func ended(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if m.Stage(gone, standby, m.artifact("one"), nil) == nil {
		return errors.New("stage takes no notice of its context")
	}
	if m.Activate(gone, standby, tries) == nil {
		return errors.New("activate takes no notice of its context, or runs what was never staged")
	}
	return m.boots(ctx, active, "")
}

// aborts: what was staged does not run, whoever activates it.
func aborts(ctx context.Context, m *Machine) error {
	active, standby, err := m.standby(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(m.Stage(ctx, standby, m.artifact("one"), nil), m.Abort(ctx, standby)); err != nil {
		return err
	}
	if m.Activate(ctx, standby, tries) == nil {
		return errors.New("what was aborted was activated")
	}
	return m.boots(ctx, active, "")
}
