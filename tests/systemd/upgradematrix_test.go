package systemd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
)

// The ends of an upgrade. refused: there is none.
const (
	refused    = "refused"
	committed  = string(upgrade.Committed)
	rolledBack = string(upgrade.RolledBack)
	failed     = string(upgrade.Failed)
	none       = "none" // it was not asked for: the agent was killed before it was recorded
)

// The crashes at a step.
const (
	killAgent = "kill -9"
	killOne   = "PID 1"
	standing  = "" // none: the agent stands there until the case has done something to the machine
)

// upgradeCase is an upgrade: to a program that is good or bad in a way, by a release, with a crash at a step.
type upgradeCase struct {
	name    string
	bad     string                  // agent/fault_weirfault.go, plantedBad
	step    string                  // where, as agent/upgrader.go names them; "": nowhere
	then    string                  // a step behind that one, where it is killed once more; with at: where it is killed
	crash   string                  // what is killed there
	release func(*document.Release) // what is wrong with the manifest
	by      string                  // the key that signs it; "": release
	file    func(u *upgrading)      // what is done to the file before it is asked for
	at      func(u *upgrading)      // what is done to the machine at the step
	after   func(u *upgrading)      // what is done behind its end
	env     string                  // of the service
	unit    string                  // more of the service
	want    string
	says    string // in the answer, or as the reason
	short   bool   // of the short form
}

// upgrading is a machine that is upgraded again and again.
type upgrading struct {
	*machine
	t     *testing.T
	far   *far
	next  []byte // the program that upgrades bring, but for its last bytes
	n     int
	table strings.Builder
	ends  map[string]int
	power func() // has a machine go on that has ended; nil: it does not end by itself
}

// matrixDir has what upgrades are made of, where the service's user sees it.
const matrixDir = "/var/lib/weir-files"

// matrixUnit is the operator's drop-in: times in which a test can wait, and the places of planted crashes.
func matrixUnit(env, more string) string {
	return "[Service]\nRestartSec=200ms\nWatchdogSec=10\nTimeoutStartSec=60\nEnvironment=WEIR_TRIAL=100ms WEIR_STUCK_AFTER=4s WEIR_PLANT=" + matrixDir + " " + env + "\n" + more
}

// newUpgrading installs the package, whose program is the one with planted faults: it does what it is told and nothing else.
func newUpgrading(t *testing.T) *upgrading {
	m := installed(t)
	m.run(t, "systemctl", "stop", "weir")
	m.run(t, "cp", "/usr/local/bin/"+faulty, "/usr/bin/weir")
	root, err := rig.FleetRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "/etc/weir/fleet/root.json", string(root))
	m.write(t, "/etc/weir/weir.yaml", upgradableConfig())
	m.dropIn(t, matrixUnit("", ""))
	u := &upgrading{machine: m, t: t, far: newFar(t, m), next: nextFaulty(t), ends: map[string]int{}}
	m.run(t, "systemctl", "start", "--no-block", "weir")
	u.await("the session is there", func() bool { return subscribed(u.far.broker) })
	u.far.publish()
	return u
}

// nextFaulty is the program with planted faults, of another version.
func nextFaulty(t *testing.T) []byte {
	t.Helper()
	next := filepath.Join(scratch, "weir-v2")
	if *builtFlag != "" {
		next = filepath.Join(*builtFlag, "weir-v2")
	}
	if _, err := os.Stat(next); err != nil { // as faulty is built, so that it is only linked anew
		if err := rig.BuildWeir(next, "-tags", "weirfault", "-ldflags", "-s -w -X github.com/weirstream/weir/agent.version=v2"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (u *upgrading) await(what string, holds func() bool) {
	u.t.Helper()
	u.machine.await(u.t, what, func() bool {
		if u.power != nil {
			u.power()
		}
		return holds()
	})
}

// look asks the agent; nil: it does not answer.
func (u *upgrading) look() *api.Status {
	out, err := u.try("/usr/bin/weir", "status", "-o", "json")
	s := &api.Status{}
	if err != nil || json.Unmarshal([]byte(out), s) != nil {
		return nil
	}
	return s
}

// rests gives the status of a gateway at which no upgrade is under way, and every pipeline runs; nil: it is not.
func (u *upgrading) rests() *api.Status {
	s := u.look()
	if s == nil || len(s.Pipelines) != 2 {
		return nil
	}
	for _, p := range s.Pipelines {
		if p.State != "running" {
			return nil
		}
	}
	if s.Upgrade == nil {
		s.Upgrade = &api.UpgradeStatus{}
	}
	switch s.Upgrade.State {
	case "", committed, rolledBack, failed:
		return s
	}
	return nil
}

func (u *upgrading) awaitRest(what string, number uint64) (s *api.Status) {
	u.t.Helper()
	u.await(what, func() bool { s = u.rests(); return s != nil && s.Upgrade.Number >= number })
	return s
}

// hour: what is remembered of starts that followed one another is what an hour would have forgotten.
func (u *upgrading) hour() {
	u.try("rm", "-f", "/run/weir/starts", "/run/weir-boot/starts.json") //nolint:errcheck // there may be none
}

func (u *upgrading) file() string { return u.path(matrixDir + "/next") }

func (u *upgrading) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// program makes the program of a case, and its release.
func (u *upgrading) program(c *upgradeCase) {
	u.t.Helper()
	u.n++
	end := fmt.Sprintf("\nprogram %04d                                \n", u.n)
	if c.bad != "" {
		end = fmt.Sprintf("\nprogram %04d                         bad=%s\n", u.n, c.bad)
	}
	u.must(os.WriteFile(u.file(), append(u.next[:len(u.next):len(u.next)], end...), 0o755))
	release, err := rig.Release(u.t.Context(), u.file(), "v2", func(r *document.Release) {
		r.SecureVersion, r.MinSecureVersion = 2, 2
		if c.release != nil {
			c.release(r)
		}
	})
	u.must(err)
	if c.by != "" {
		e, err := signed.Parse(release)
		u.must(err)
		e, err = signed.Seal(u.t.Context(), signed.TypeRelease, e.Payload, rig.FleetKey(c.by))
		u.must(err)
		release = e.Bytes()
	}
	u.must(os.WriteFile(u.path(matrixDir+"/release.json"), release, 0o644))
	if c.file != nil {
		c.file(u)
	}
}

// exitCode of a program that was run; -1: it was not.
func exitCode(err error) int {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		return -1
	}
	return 0
}

var tried = regexp.MustCompile(`version v2 is on trial; it has (\d) starts left behind this one`)

// run carries a case out and adds its line to the table.
func (u *upgrading) run(c *upgradeCase) {
	u.t.Helper()
	u.hour()
	before := u.awaitRest("the gateway is at rest before", 0)
	if c.env+c.unit != "" {
		u.dropIn(u.t, matrixUnit(c.env, c.unit))
		defer u.dropIn(u.t, matrixUnit("", ""))
	}
	if c.env != "" {
		u.machine.run(u.t, "systemctl", "restart", "weir")
		before = u.awaitRest("the gateway is at rest, "+c.env, 0)
	}
	from, cursor := u.runs(), u.cursor(u.t)
	u.program(c)
	if c.step != "" {
		u.plantSteps(c)
	}
	var out string
	var err error
	answered := make(chan struct{})
	go func() { // ends with the answer, which a step may hold up
		args := []string{"upgrade", matrixDir + "/next", "--release", matrixDir + "/release.json"}
		if c.step == "" { // its end is its exit code
			args = append(args, "--wait")
		}
		out, err = u.try("/usr/bin/weir", args...)
		close(answered)
	}()
	if c.step != "" {
		u.crash(c)
	}
	<-answered
	if code := map[string]int{committed: 0, refused: 1, failed: 1, rolledBack: 8}[c.want]; c.step == "" && exitCode(err) != code {
		u.t.Errorf("%s: exit code %d, want %d: %v %s", c.name, exitCode(err), code, err, out)
	}
	if c.want == refused && !strings.Contains(out, c.says) {
		u.t.Errorf("%s: it is not refused by %q: %s", c.name, c.says, out)
	}
	number := before.Upgrade.Number
	if c.want != refused && c.want != none {
		number++
	}
	s := u.awaitRest("the end of "+c.name, number)
	if c.after != nil {
		c.after(u)
	}
	why := s.Upgrade.Why
	switch {
	case c.want == refused || c.want == none:
		if s.Upgrade.Number != number {
			u.t.Errorf("%s: it was refused, and is number %d", c.name, s.Upgrade.Number)
		}
		why = strings.TrimSpace(out)
		s.Upgrade.State = c.want
	case s.Upgrade.State != c.want || !strings.Contains(why, c.says):
		u.t.Errorf("%s: it ended %s, %q, want %s, %q", c.name, s.Upgrade.State, why, c.want, c.says)
	}
	if now := u.runs(); (now == from) != (c.want != committed) {
		u.t.Errorf("%s: %s runs, and %s ran before", c.name, now, from)
	}
	said := u.said(u.t, cursor)
	starts := len(tried.FindAllString(said, -1))
	if starts > 2*upgrade.TriesNew {
		u.t.Errorf("%s: %d starts on trial", c.name, starts)
	}
	step := strings.ReplaceAll(strings.TrimSpace(c.step+" "+c.then), "upgrade-", "")
	line := fmt.Sprintf("%-30s | %-42s | %-8s | %-11s | %d | %s | %.60s", c.name, step, c.crash, s.Upgrade.State, starts, u.far.awaitAll(u.t), strings.ReplaceAll(why, "\n", " "))
	u.table.WriteString(line + "\n")
	u.t.Log(line)
	u.ends[s.Upgrade.State]++
}

// plant leaves word for the agent, whole.
func (u *upgrading) plant(name, text string) {
	u.t.Helper()
	u.must(os.WriteFile(u.path(matrixDir+"/.plant"), []byte(text), 0o644))
	u.must(os.Rename(u.path(matrixDir+"/.plant"), u.path(matrixDir+"/"+name)))
}

func (u *upgrading) planted(name string) bool {
	_, err := os.Stat(u.path(matrixDir + "/" + name))
	return err == nil
}

// matrix is every case but those that want a machine of their own: first without a crash, then with one at each durable step on its way (upgradesteps_test.go).
func matrix() (list []upgradeCase) {
	add := func(c ...upgradeCase) { list = append(list, c...) }
	add(
		upgradeCase{name: "good", want: committed, short: true},
		upgradeCase{name: "crashes at once", bad: "crash", want: rolledBack, says: "started 3 times", short: true},
		upgradeCase{name: "refuses on trial (code 2)", bad: "exit", want: rolledBack, says: "started 3 times"},
		upgradeCase{name: "never ready", bad: "silent", unit: "TimeoutStartSec=20\n", want: rolledBack, says: "started 3 times"},
		upgradeCase{name: "hangs (watchdog)", bad: "hang", want: rolledBack, says: "watchdog", short: true},
		upgradeCase{name: "never judges itself", bad: "stand", want: rolledBack, says: "watchdog", short: true},
		upgradeCase{name: "corrupts its state", bad: "corrupt", want: rolledBack, says: "started 3 times", short: true},
		upgradeCase{name: "a sink cannot prepare", bad: "sink", want: rolledBack, says: "does not answer"},
		upgradeCase{name: "makes wrong rows", bad: "spoil", want: rolledBack, says: "does not answer"},
		upgradeCase{name: "cannot read the state", bad: "restore", want: rolledBack},
		upgradeCase{name: "says it cannot read the state", want: failed, says: "savepoints hold", release: func(r *document.Release) {
			for kind := range r.Artifacts[0].Compat.State {
				r.Artifacts[0].Compat.State[kind] = document.Versions{Least: 98, Most: 99, Writes: 99}
			}
		}},
		upgradeCase{name: "good, clock in 1970", env: "WEIR_CLOCK=1970", want: committed},
		upgradeCase{name: "cannot read, clock in 1970", env: "WEIR_CLOCK=1970", bad: "restore", want: rolledBack},
		upgradeCase{name: "truncated file", want: refused, says: "sha256", file: truncate, short: true},
		upgradeCase{name: "corrupted file", want: refused, says: "sha256", file: corrupt},
		upgradeCase{name: "wrong key", want: refused, says: "signature", by: "deploy", short: true},
		upgradeCase{name: "wrong board", want: refused, says: "board", release: func(r *document.Release) { r.Artifacts[0].Boards = []string{"rpi4"} }},
		upgradeCase{name: "wrong arch", want: refused, says: "amd64", release: func(r *document.Release) { r.Artifacts[0].Arch = "arm64" }},
		upgradeCase{name: "older than the floor", want: refused, says: "secure version 1", release: func(r *document.Release) { r.SecureVersion, r.MinSecureVersion = 1, 1 }},
		upgradeCase{name: "truncated when it is fetched", want: failed, says: "read the artifact", step: "upgrade-after-rest-asked", at: truncate},
		upgradeCase{name: "corrupted when it is fetched", want: failed, says: "not what was signed", step: "upgrade-after-rest-asked", at: corrupt},
		upgradeCase{name: "corrupted behind its staging", want: rolledBack, step: "upgrade-staged", short: true, at: func(u *upgrading) {
			u.machine.run(u.t, "sh", "-c", "printf x | dd of=/var/lib/weir/upgrade/slot bs=1 seek=1000 conv=notrunc 2>/dev/null")
		}},
	)
	for i := range list {
		list = append(list, crashesOf(&list[i])...)
	}
	return list
}

func truncate(u *upgrading) {
	info, err := os.Stat(u.file())
	u.must(err)
	u.must(os.Truncate(u.file(), info.Size()-4097))
}

func corrupt(u *upgrading) {
	f, err := os.OpenFile(u.file(), os.O_WRONLY, 0)
	u.must(err)
	_, err = f.WriteAt([]byte("x"), 1<<20+17)
	u.must(err)
	u.must(f.Close())
}

// longMatrix: make upgrade-matrix.
func longMatrix() bool { return os.Getenv("WEIR_SYSTEMD") == "long" || wholeMatrix() }

// TestUpgradeMatrix: real agents, the real helper and the real unit. Whatever the program, the release and the crash, each upgrade ends with pipelines that run, and the receiver has each result once.
func TestUpgradeMatrix(t *testing.T) {
	u := newUpgrading(t)
	defer func() {
		t.Logf("program or release | step | crash | outcome | starts on trial | results | why\n%s%d upgrades: %v", u.table.String(), u.n, u.ends)
	}()
	part, parts := partOfMatrix(t)
	for i, c := range matrix() {
		if (c.short || longMatrix()) && (i == 0 || i%parts == part) { // the first one is good, and raises the floor
			u.run(&c)
		}
	}
	if longMatrix() && part == 0 {
		u.fullSlots()
		u.fullState()
	}
	u.uncounted()
}

// uncounted is the planted fault: a helper that does not count, nor look whether it was counted, has a program that ends at once run again and again. With the real one it comes to its end.
func (u *upgrading) uncounted() {
	u.t.Helper()
	u.hour()
	number := u.awaitRest("the gateway is at rest", 0).Upgrade.Number + 1
	u.dropIn(u.t, matrixUnit("", "ExecStartPre=\nExecStartPre=-+/usr/lib/weir/weir-boot link\n"))
	u.program(&upgradeCase{bad: "crash"})
	u.machine.run(u.t, "/usr/bin/weir", "upgrade", matrixDir+"/next", "--release", matrixDir+"/release.json")
	before := u.restarts(u.t)
	u.await("the planted fault shows: a program on trial is started more often than it may be", func() bool { return u.restarts(u.t) > before+2*upgrade.TriesNew+1 })
	if s := u.rests(); s != nil {
		u.t.Errorf("the planted fault is not found: the upgrade has ended %s", s.Upgrade.State)
	}
	u.dropIn(u.t, matrixUnit("", ""))
	u.hour()
	if s := u.awaitRest("it ends once the helper counts", number); s.Upgrade.State != rolledBack {
		u.t.Errorf("it ended %s", s.Upgrade.State)
	}
	u.far.awaitAll(u.t)
}
