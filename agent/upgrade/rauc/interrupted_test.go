package rauc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/upgrade"
)

const (
	slotA upgrade.Slot = "rootfs.0"
	slotB upgrade.Slot = "rootfs.1"
)

func mustBundle(t *testing.T, kind, signer, compatible string) upgrade.Artifact {
	t.Helper()
	b, err := shop.bundle(kind, signer, compatible)
	if err != nil {
		t.Fatal(err)
	}
	return artifactOf(b)
}

// midWrite has the slot be a pipe while a bundle is staged, does what the test wants once RAUC has written a part, and leaves the slot with that part. It gives what Stage said.
func midWrite(ctx context.Context, m *machine, a upgrade.Artifact, then func()) error {
	slot := m.path("slot.B")
	if err := errors.Join(os.Rename(slot, slot+".real"), unix.Mkfifo(slot, 0o600)); err != nil {
		return err
	}
	pipe, err := os.OpenFile(slot, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	ended := make(chan error, 1)
	go func() { ended <- m.backend().Stage(ctx, slotB, a, nil) }()
	part := make([]byte, imageBytes/4)
	read := make(chan error, 1)
	go func() { _, err := io.ReadFull(pipe, part); read <- err }()
	var said error
	select {
	case said = <-ended: // it wrote nothing
		pipe.Close()
		<-read
	case err = <-read:
		then()
		said = <-ended
	}
	m.killRauc()
	if err := errors.Join(err, os.Rename(slot+".real", slot)); err != nil {
		return err
	}
	f, err := os.OpenFile(slot, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(part, 0); err != nil {
		return err
	}
	return said
}

// interrupted: a slot that was whole is written to again, and RAUC is killed in the middle. It gives what is wrong behind that.
func interrupted(t *testing.T, planted fault) error {
	m := start(t)
	m.plant = planted
	one, two := mustBundle(t, "one", "right", "gateway"), mustBundle(t, "two", "right", "gateway")
	if err := m.backend().Stage(t.Context(), slotB, one, nil); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := midWrite(ctx, m, two, func() {
		m.rauc.Kill()
		if planted == faultOwner {
			time.AfterFunc(time.Second, stop) // else it would never end
		}
	})
	if !errors.Is(said, ErrDied) && planted != faultStatus {
		return fmt.Errorf("RAUC was killed in the middle, and Stage says %v", said)
	}
	if s, err := m.boot(); err != nil || s != slotA {
		return fmt.Errorf("%s runs, %v", s, err)
	}
	if runs, err := m.runs(); err != nil || runs != "made" {
		return fmt.Errorf("%q runs, %v", runs, err)
	}
	b := m.backend()
	if err := b.Activate(t.Context(), slotB, 3); !errors.Is(err, ErrSlot) {
		return fmt.Errorf("half a system was activated: %v", err)
	}
	if err := b.Stage(t.Context(), slotB, one, nil); err != nil { // RAUC's status says that this one is there, and ok
		return err
	}
	if is, err := m.holds("B"); err != nil || is != one.Target.SHA256 {
		return fmt.Errorf("staged again, and the slot holds %q: %v", is, err)
	}
	if err := b.Activate(t.Context(), slotB, 3); err != nil {
		return err
	}
	if s, err := m.boot(); err != nil || s != slotB {
		return fmt.Errorf("staged again and activated, and %s runs: %v", s, err)
	}
	return nil
}

func TestInterrupted(t *testing.T) {
	if err := interrupted(t, ""); err != nil {
		t.Error(err)
	}
}

func TestInterruptedFindsFaults(t *testing.T) {
	for _, f := range []fault{faultOwner, faultStatus, faultNote} {
		err := interrupted(t, f)
		if err == nil {
			t.Errorf("planted %q is not found", f)
		}
		t.Logf("%s: %.200v", f, err)
	}
}

// TestBusGoes: in the middle of an installation, and between two calls.
func TestBusGoes(t *testing.T) {
	m := start(t)
	a := mustBundle(t, "one", "right", "gateway")
	if err := midWrite(t.Context(), m, a, m.bus.Kill); !errors.Is(err, ErrDied) {
		t.Errorf("the bus has gone in the middle: %v", err)
	}
	for name, call := range map[string]func() error{
		"probe": func() error { _, err := m.backend().Probe(t.Context()); return err }, "stage": func() error { return m.backend().Stage(t.Context(), slotB, a, nil) }, "activate": func() error { return m.backend().Activate(t.Context(), slotB, 3) },
		"commit": func() error { return m.backend().Commit(t.Context()) }, "revert": func() error { return m.backend().Revert(t.Context(), slotA) }, "abort": func() error { return m.backend().Abort(t.Context(), slotB) },
	} {
		if err := call(); !errors.Is(err, ErrNoRauc) {
			t.Errorf("%s without a bus: %v", name, err)
		}
	}
	b := m.backend()
	if err := m.startBus(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(t.Context()); !errors.Is(err, ErrNoRauc) {
		t.Errorf("without RAUC on the bus: %v", err)
	}
	if _, err := m.boot(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Stage(t.Context(), slotB, a, nil), b.Activate(t.Context(), slotB, 3)); err != nil {
		t.Errorf("the bus has come back: %v", err)
	}
}

// errKilled ends a call where kill -9 would.
var errKilled = errors.New("the agent was killed")

// TestAgentKilledAtEachCall: what was begun is done again by another process, behind a reboot or beside the same RAUC, which may still be at it.
func TestAgentKilledAtEachCall(t *testing.T) {
	a := mustBundle(t, "one", "right", "gateway")
	needs(t)
	for at, total := 0, 1; at < total; at++ {
		for _, reboot := range []bool{false, true} {
			if os.Getenv("WEIR_RAUC") != "long" && (at%2 == 0) != reboot {
				continue // the short form, for CI: every call is there, each in one of the two ways
			}
			m := start(t)
			if err := killedAt(t.Context(), m, a, at, reboot, &total); err != nil {
				t.Errorf("killed at call %d, reboot %v: %v", at, reboot, err)
			}
			m.close()
		}
	}
}

func killedAt(ctx context.Context, m *machine, a upgrade.Artifact, at int, reboot bool, total *int) error {
	count, name, killed := 0, "", false
	life := func() *Backend {
		b := m.backend()
		b.step = func(call string) error {
			if count++; count-1 == at && !killed {
				name, killed = call, true
				return errKilled
			}
			return nil
		}
		return b
	}
	acts := []struct {
		do   func(*Backend) error
		boot upgrade.Slot // "": no start
	}{
		{func(b *Backend) error { return b.Stage(ctx, slotB, a, nil) }, ""},
		{func(b *Backend) error { return b.Activate(ctx, slotB, 3) }, slotB},
		{func(b *Backend) error { return b.Commit(ctx) }, slotB},
		{func(b *Backend) error { return b.Revert(ctx, slotA) }, slotA},
		{func(b *Backend) error { return b.Abort(ctx, slotB) }, slotA},
	}
	for i, act := range acts {
		err := act.do(life())
		if errors.Is(err, errKilled) {
			if reboot {
				if _, err := m.boot(); err != nil {
					return fmt.Errorf("%s of act %d: %w", name, i, err)
				}
				if runs, err := m.runs(); err != nil || runs != "made" && runs != a.Target.SHA256 || m.booted == "B" && runs == "made" {
					return fmt.Errorf("%s of act %d: %q runs from %s: %v", name, i, runs, m.booted, err)
				}
			}
			if i == 4 && m.booted != "A" { // the record is at rest here
				return fmt.Errorf("%s of act %d: slot %s runs behind Revert", name, i, m.booted)
			}
			if _, err := m.backend().Booted(ctx); err != nil {
				return fmt.Errorf("%s of act %d: %w", name, i, err)
			}
			err = act.do(life())
		}
		if err != nil {
			return fmt.Errorf("act %d: %w", i, err)
		}
		if act.boot != "" {
			if s, err := m.boot(); err != nil || s != act.boot {
				return fmt.Errorf("behind act %d %s runs: %v", i, s, err)
			}
		}
	}
	*total = max(*total, count)
	return nil
}
