//go:build !nocentral

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
)

// terminal gives both ends of a pseudo terminal.
func terminal(t *testing.T) (far, near *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED HERE: there are no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { far.Close() })
	if err := unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	near, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED HERE: %v", err)
	}
	t.Cleanup(func() { near.Close() })
	return far, near
}

// TestConfirm: yes is yes, and all else is no: another answer, none, the end of the input, and whoever is no terminal, whatever he says.
func TestConfirm(t *testing.T) {
	const ctrlD = "\x04"
	for answer, yes := range map[string]bool{"y\n": true, "Y\n": true, "yes\n": true, " yes \n": true, "n\n": false, "no\n": false, "\n": false, "yet\n": false, ctrlD: false, "y" + ctrlD + ctrlD: false} {
		far, near := terminal(t)
		if _, err := io.WriteString(far, answer); err != nil {
			t.Fatal(err)
		}
		c := &cobra.Command{}
		c.SetContext(t.Context())
		var asked bytes.Buffer
		c.SetIn(near)
		c.SetErr(&asked)
		if err := (&fleetFlags{}).confirm(c, "Publish it?"); (err == nil) != yes || err != nil && exitCode(err) != 2 {
			t.Errorf("%q: %v, want yes %v", answer, err, yes)
		}
		if asked.String() != "Publish it? [y/N] " {
			t.Errorf("%q is asked", asked.String())
		}
	}
	file := filepath.Join(t.TempDir(), "yes")
	if err := os.WriteFile(file, []byte("y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{file, os.DevNull} {
		f, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		c := &cobra.Command{}
		c.SetContext(t.Context())
		c.SetIn(f)
		if err := (&fleetFlags{}).confirm(c, "?"); err == nil || !strings.Contains(err.Error(), "give --yes") {
			t.Errorf("%s: %v", in, err)
		}
		if err := (&fleetFlags{yes: true}).confirm(c, "?"); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	c := &cobra.Command{}
	c.SetContext(t.Context())
	c.SetIn(strings.NewReader("y\n"))
	if err := (&fleetFlags{}).confirm(c, "?"); err == nil {
		t.Error("who is no file at all can say yes")
	}
}

// TestReconcileIsWatched: it goes from wave to wave until all is done, over a lease that somebody holds; it ends with 10 when the roll-out is halted.
func TestReconcileIsWatched(t *testing.T) {
	f := newFleet(t, 40)
	sha := f.release("1.4.0")
	deploy := f.key("deploy")
	f.says(0, "published", append([]string{"fleet", "rollout", "1.4.0", "--id", "r1", "--waves", "20%,50%,100%", "--min-reports", "3", "--yes"}, deploy...)...)
	lease, err := f.Lease(t.Context(), "stable", "somebody")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.in("r1", 0, 1000) {
		f.fares("r1", sha, g, rollout.Committed)
	}
	held := &firstWrite{then: func() { // the warning that somebody has the lease
		if err := lease.Free(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	code, errs := f.watch(held, append([]string{"fleet", "reconcile", "--watch", "20ms"}, deploy...)...)
	if code != 0 || !strings.Contains(errs, "somebody else acts on this channel") || strings.Index(errs, "wave 2") < 0 || strings.Index(errs, "wave 3") < strings.Index(errs, "wave 2") {
		t.Errorf("exit code %d: %s", code, errs)
	}

	f.says(0, "", "fleet", "status")
	bad := f.release("1.5.0")
	fare := func(id string, gateways []string, how string) func() { // once it is published
		return func() {
			for _, g := range gateways {
				f.fares(id, bad, g, how)
			}
		}
	}
	code, errs = f.watch(&firstWrite{published: fare("r2", f.in("r2", 0, 1000)[:20], rollout.RolledBack)}, append([]string{"fleet", "rollout", "1.5.0", "--id", "r2", "--waves", "100%", "--min-reports", "3", "--yes", "--watch", "--every", "20ms"}, deploy...)...)
	if code != exitAttention || !strings.Contains(errs, "the roll-out was halted, serial") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	f.says(10, "HALTED", "fleet", "status")

	ctx, cancel := context.WithCancel(t.Context())
	cmd := root()
	cmd.SetOut(&firstWrite{at: "roll-out r1", then: cancel}) // somebody ends it once it has said how things stand
	cmd.SetErr(io.Discard)
	f.release("1.4.1")
	f.says(0, "published", append([]string{"fleet", "rollout", "1.4.1", "--id", "r1b", "--waves", "100%", "--yes"}, deploy...)...)
	cmd.SetArgs(append(append([]string{"fleet", "reconcile", "--watch", "20ms", "-c", f.config}, deploy...), f.flags...))
	if err := cmd.ExecuteContext(ctx); exitCode(err) != 1 || !strings.Contains(err.Error(), "stays in its wave until somebody reconciles again") {
		t.Errorf("a watch that somebody ends: exit code %d, %v", exitCode(err), err)
	}

	code, errs = f.watch(&firstWrite{published: fare("r3", f.in("r3", 0, 1000), rollout.Committed)}, append([]string{"fleet", "rollout", "1.5.0", "--id", "r3", "--waves", "50%,100%", "--min-reports", "3", "--yes", "--watch", "--every", "20ms", "--again"}, deploy...)...)
	if code != 0 || !strings.Contains(errs, "wave 2") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, r, err := f.CurrentRollout(t.Context(), f.trust(), "stable"); err != nil || !r.Policy.Again {
		t.Errorf("%+v, %v", r, err)
	}
}

// firstWrite does something once, when it is written to.
type firstWrite struct {
	bytes.Buffer
	at        string // only by what has that in it
	then      func()
	published func() // what else watch does, once the roll-out is published
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if w.then != nil && bytes.Contains(b, []byte(w.at)) {
		w.then()
		w.then = nil
	}
	return w.Buffer.Write(b)
}

// watch runs a command whose errors are heard as they come.
func (f *aFleet) watch(errs *firstWrite, args ...string) (code int, said string) {
	f.t.Helper()
	cmd := root()
	cmd.SetOut(&firstWrite{at: "published: ", then: errs.published})
	cmd.SetErr(errs)
	cmd.SetArgs(append(append(args, f.flags...), "-c", f.config))
	err := cmd.ExecuteContext(f.t.Context())
	if err != nil {
		return exitCode(err), errs.String() + err.Error()
	}
	return 0, errs.String()
}

// TestDeviceKeysLieBesideTheRoot: the keys of a file that need not be named, if there is one; what was named has to be there.
func TestDeviceKeysLieBesideTheRoot(t *testing.T) {
	dir := t.TempDir()
	f := &fleetFlags{deviceKeys: "default", keysDefault: filepath.Join(dir, "device-keys")}
	count := func(named string, want int) {
		t.Helper()
		f.deviceKeys = named
		if keys, err := f.readKeys(t.Context()); err != nil || len(keys) != want {
			t.Errorf("%q: %d keys, want %d, %v", named, len(keys), want, err)
		}
	}
	count("default", 0)
	key := newFleet(t, 1).keys["gw-000"].Public()
	if err := os.WriteFile(f.keysDefault, fmt.Appendf(nil, "gw-000 %s\n", signed.FormatLine(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	count("default", 1)
	count("none", 0)
	count("", 0)
	count(f.keysDefault, 1)
	f.deviceKeys = filepath.Join(dir, "other")
	if _, err := f.readKeys(t.Context()); err == nil {
		t.Error("a file that was named and is not there counts as no keys")
	}
	if err := os.WriteFile(f.keysDefault, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.deviceKeys = "default"
	if _, err := f.readKeys(t.Context()); err == nil {
		t.Error("a file that cannot be read counts as no keys")
	}
}
