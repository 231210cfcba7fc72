package systemd

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/tests/rig"
)

// killRauc is a crash of RAUC with all that it runs.
const killRauc = "RAUC"

// systemCase is an upgrade of the whole system.
type systemCase struct {
	name   string
	bad    string // of the program in it
	rubble bool   // there is no system in the image
	step   string // where the agent stands or dies, as agent/upgrader.go names them; "": nowhere
	stand  string // what of RAUC's and the boot loader's work stands (twoslots/loader.sh, half.sh); "": nothing
	crash  string // what is killed there
	unit   string // more of the service
	loader string // a mistake of the boot loader's; "": none
	want   string
	says   string
	short  bool
}

// systemFlag saves a developer the others.
var systemFlag = flag.String("system", "", "regular expression: only the upgrades of a whole system whose name, step and crash match")

func (c *systemCase) String() string {
	return strings.Join(strings.Fields(c.name+" "+c.step+" "+c.stand+" "+c.crash), " ")
}

// systems is a machine whose systems are exchanged again and again.
type systems struct {
	*upgrading
	two *twoSlots
}

// bootName has the service see the name of this boot that the machine has: its own /proc (ProtectProc=) would show that of the machine below.
const bootName = "BindReadOnlyPaths=/flash/boot_id:/proc/sys/kernel/random/boot_id\n"

func newSystems(t *testing.T) *systems {
	t.Helper()
	first := need(t).path("/usr/local/bin/" + faulty)
	two := newTwoSlots(t, first)
	s := &systems{two: two, upgrading: &upgrading{machine: two.machine, t: t, next: nextFaulty(t)}}
	root, err := rig.FleetRoot(t.Context())
	s.must(err)
	s.must(os.MkdirAll(two.partition("etc/fleet"), 0o755))
	s.must(os.WriteFile(two.partition("etc/fleet/root.json"), root, 0o644))
	s.must(os.WriteFile(two.partition("etc/weir.yaml"), []byte(strings.Replace(upgradableConfig(), "backend: self", "backend: rauc", 1)), 0o644))
	s.must(os.WriteFile(two.partition("unit/test.conf"), []byte(s.unit("")), 0o644))
	two.power()
	s.far = newFar(t, two.machine)
	two.onBoot = func() { s.far.unplug(); s.far.plug(t) }
	s.power = two.firmware
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.try("journalctl", "-n", "150", "--no-pager", "-o", "short-precise")
			t.Log(out)
		}
	})
	s.await("the session is there", func() bool { return subscribed(s.far.broker) })
	s.far.publish()
	return s
}

func (s *systems) unit(more string) string { return matrixUnit("", bootName+more) }

// TestUpgradeRauc: real agents, RAUC, a bus, units and a boot loader of shell, and a machine that starts anew. Whatever the system and the crash, each upgrade ends with pipelines that run, and the receiver has each result once.
func TestUpgradeRauc(t *testing.T) {
	wanted := regexp.MustCompile(*systemFlag)
	s := newSystems(t)
	s.policy()
	defer func() {
		t.Logf("system | step | crash | outcome | boots | slot | results | why\n%s", s.table.String())
	}()
	for _, c := range systemMatrix() {
		if (c.short || longMatrix()) && wanted.MatchString(c.String()) {
			s.run(&c)
		}
	}
	if longMatrix() && wanted.MatchString("uncounted") {
		s.uncounted()
	}
}

// policy: of the users of the bus only root and the agent's may direct RAUC.
func (s *systems) policy() {
	s.t.Helper()
	for user, may := range map[string]bool{"weir": true, "nobody": false, "root": true} {
		out, err := s.try("setpriv", "--reuid="+user, "--clear-groups", "busctl", "call", "de.pengutronix.rauc", "/", "de.pengutronix.rauc.Installer", "GetPrimary")
		if may != (err == nil) || !may && !strings.Contains(out, "Access denied") {
			s.t.Errorf("%s asks RAUC: %v %s", user, err, out)
		}
	}
}

// make makes the system of a case, its bundle, and its release.
func (s *systems) make(c *systemCase) {
	s.t.Helper()
	s.n++
	end := fmt.Sprintf("\nsystem %04d                                 \n", s.n)
	if c.bad != "" {
		end = fmt.Sprintf("\nsystem %04d                          bad=%s\n", s.n, c.bad)
	}
	program, image, bundle := filepath.Join(s.two.home, "work", "program"), filepath.Join(s.two.home, "work", "image"), s.file()
	s.must(os.WriteFile(program, append(s.next[:len(s.next):len(s.next)], end...), 0o755))
	s.must(s.two.image(program, image))
	if c.rubble {
		b := make([]byte, 4<<20)
		rand.Read(b)
		s.must(os.WriteFile(image, b, 0o600))
	}
	s.must(s.two.bundle(image, bundle, c.stand == "half"))
	release, err := rig.Release(s.t.Context(), bundle, "v2", func(r *document.Release) { r.Artifacts[0].Backend = "rauc" })
	s.must(err)
	s.must(os.WriteFile(s.path(matrixDir+"/release.json"), release, 0o644))
}

// run carries a case out and adds its line to the table.
func (s *systems) run(c *systemCase) {
	s.t.Helper()
	s.hour()
	if c.unit != "" {
		s.dropIn(s.t, s.unit(c.unit))
		defer func() { s.dropIn(s.t, s.unit("")) }()
	}
	s.two.most = s.two.boots + bootsMost
	if c.loader != "" {
		s.must(os.WriteFile(s.two.env(c.loader), nil, 0o644))
		defer os.Remove(s.two.env(c.loader))
	}
	number := s.awaitRest("the gateway is at rest before "+c.name, 0).Upgrade.Number + 1
	from, boots := s.two.gateway(), s.two.boots
	s.make(c)
	switch {
	case c.step == "" && c.stand != "":
		s.must(os.WriteFile(s.two.env("stand."+c.stand), nil, 0o644))
	case c.step != "" && c.stand == "" && c.crash == killAgent:
		s.plant("step", c.step)
	case c.step != "":
		s.plant("step", c.step+" pause")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), rig.Patience)
	ask := s.command(ctx, "/usr/bin/weir", "upgrade", matrixDir+"/next", "--release", matrixDir+"/release.json")
	answered := make(chan string, 1)
	go func() { // ends with the answer, which a step may hold up, or with the machine
		out, err := said(ask)
		answered <- fmt.Sprintf("%v %s", err, out)
	}()
	s.crash(c)
	answer := <-answered
	cancel()
	status := s.awaitRest("the end of "+c.name+" ("+answer+")", number)
	os.Remove(s.path(matrixDir + "/reached"))
	why := status.Upgrade.Why
	if status.Upgrade.State != c.want || !strings.Contains(why, c.says) {
		s.t.Errorf("%s: it ended %s, %q, want %s, %q", c, status.Upgrade.State, why, c.want, c.says)
	}
	if now := s.two.gateway(); (now == from) != (c.want != committed) {
		s.t.Errorf("%s: system %s runs, and %s ran before", c.name, now, from)
	}
	boots = s.two.boots - boots
	if boots > systemBoots {
		s.t.Errorf("%s: %d boots", c.name, boots)
	}
	results := s.far.awaitAll(s.t)
	s.settled(c.name)
	fmt.Fprintf(&s.table, "%-22s | %-44s | %-8s | %-11s | %d | %s | %s | %.70s\n", c.name, strings.TrimSpace(strings.TrimPrefix(c.step, "upgrade-")+" "+c.stand), c.crash, status.Upgrade.State, boots, s.two.slot(), results, why)
	s.t.Logf("%s: %s", c, status.Upgrade.State)
}

// systemBoots is how often a machine may start in an upgrade: each of two activations is good for three, one is the way back, and a crash may come on top.
const systemBoots = 2*upgrade.TriesNew + 2

// settled: at rest the boot loader starts what runs, for good.
func (s *systems) settled(name string) {
	s.t.Helper()
	slot := s.two.slot()
	word := func(name string) string {
		b, err := os.ReadFile(s.two.env(name))
		s.must(err)
		return strings.TrimSpace(string(b))
	}
	s.await("the boot loader is told that "+slot+" is good", func() bool { return word("primary") == slot && word("state."+slot) == "good" })
	for _, left := range []string{s.path(matrixDir + "/reached"), s.path(matrixDir + "/step"), s.two.env("reached")} {
		if _, err := os.Stat(left); err == nil {
			s.t.Errorf("%s: %s was left", name, left)
		}
	}
}

// crash waits until the case has come to where it stands, kills, and has the rest go on.
func (s *systems) crash(c *systemCase) {
	s.t.Helper()
	stands := func(word string, file func(string) string) {
		there := func(name string) bool { _, err := os.Stat(file(name)); return err == nil }
		s.await("the case "+c.String()+" comes to "+word, func() bool { return !there(word) && there("reached") })
	}
	ofAgent := func(name string) string { return s.path(matrixDir + "/" + name) } // the machine may have begun anew meanwhile
	file := ofAgent
	switch {
	case c.step != "" && c.stand != "": // only behind that step
		stands("step", ofAgent)
		s.must(os.WriteFile(s.two.env("stand."+c.stand), nil, 0o644))
		s.must(os.Remove(ofAgent("reached")))
	case c.step != "":
		stands("step", ofAgent)
	case c.stand == "":
		return
	}
	if c.stand != "" {
		file = s.two.env
		stands("stand."+c.stand, file)
	}
	switch {
	case c.crash == killOne:
		s.must(s.init.Process.Kill())
		pid := s.init.Process.Pid
		s.machine.await(s.t, "process 1 is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	case c.crash == killRauc:
		s.machine.run(s.t, "systemctl", "kill", "-s", "KILL", "--kill-whom=main", "rauc")
	case c.stand != "": // the agent: at a step it dies by itself
		s.machine.run(s.t, "systemctl", "kill", "-s", "KILL", "--kill-whom=main", "weir")
	}
	if c.stand != "" || c.crash != killOne { // what lay on the machine that is gone, run removes
		s.must(os.Remove(file("reached")))
	}
}

// soonAnew: a machine is started anew behind 3 starts of the service, not 10.
const soonAnew = "[Unit]\nStartLimitBurst=3\n"

// systemMatrix is every case.
func systemMatrix() (list []systemCase) {
	add := func(c ...systemCase) { list = append(list, c...) }
	add(
		systemCase{name: "good", want: committed},
		systemCase{name: "no system", rubble: true, want: rolledBack},
		systemCase{name: "crashes at once", bad: "crash", unit: soonAnew, want: rolledBack},
		systemCase{name: "refuses (code 2)", bad: "exit", want: rolledBack, says: "started 3 times"},
		systemCase{name: "never ready", bad: "silent", unit: soonAnew + "[Service]\nTimeoutStartSec=5\n", want: rolledBack},
		systemCase{name: "hangs (watchdog)", bad: "hang", want: rolledBack, says: "started 3 times"},
		systemCase{name: "never judges itself", bad: "stand", want: rolledBack, says: "started 3 times"},
		systemCase{name: "corrupts its state", bad: "corrupt", want: rolledBack, says: "started 3 times"},
		systemCase{name: "a sink cannot prepare", bad: "sink", want: rolledBack, says: "does not answer"},
		systemCase{name: "no tries for it", loader: "unarmed", want: rolledBack, says: "did not take it"},
		systemCase{name: "cannot read the state", bad: "restore", want: rolledBack, short: true},
	)
	for _, crash := range []string{killAgent, killRauc, killOne} {
		// RAUC in the middle of its writing; the boot loader told what starts next, and that it is good.
		for _, stand := range []string{"half", "set-primary", "after.set-primary"} {
			add(systemCase{name: "good", stand: stand, crash: crash, want: committed, short: stand == "half" && crash == killRauc})
		}
		for _, stand := range []string{"set-state.good", "after.set-state.good"} {
			add(systemCase{name: "good", step: "upgrade-before-probation-passed", stand: stand, crash: crash, want: committed})
		}
	}
	for _, crash := range []string{killAgent, killOne} {
		for _, step := range []string{"accepted-passed", "fetching-fetched", "staged-ready", "draining-drained", "saved-switching", "probation-passed", "committing-confirmed"} {
			for _, when := range []string{"upgrade-before-", "upgrade-after-"} {
				add(systemCase{name: "good", step: when + step, crash: crash, want: committed})
			}
		}
		for _, step := range []string{"upgrade-staged", "upgrade-activated", "upgrade-marked-good"} {
			add(systemCase{name: "good", step: step, crash: crash, want: committed})
		}
		for _, step := range []string{"probation-failed", "rollback-reverted", "restoring-restored"} {
			for _, when := range []string{"upgrade-before-", "upgrade-after-"} {
				add(systemCase{name: "bad: restore", bad: "restore", step: when + step, crash: crash, want: rolledBack})
			}
		}
		add(systemCase{name: "bad: restore", bad: "restore", step: "upgrade-undone", crash: crash, want: rolledBack})
	}
	return list
}

// uncounted is the planted fault: a boot loader that does not count has a system that ends at once start again and again. With one that counts it comes to its end.
func (s *systems) uncounted() {
	s.t.Helper()
	s.hour()
	s.two.most = s.two.boots + bootsMost
	number := s.awaitRest("the gateway is at rest", 0).Upgrade.Number + 1
	s.dropIn(s.t, s.unit(soonAnew))
	s.must(os.WriteFile(s.two.env("uncounted"), nil, 0o644))
	s.make(&systemCase{bad: "crash"})
	before := s.two.boots
	s.machine.run(s.t, "/usr/bin/weir", "upgrade", matrixDir+"/next", "--release", matrixDir+"/release.json")
	s.await("the planted fault shows: a system that does not start is started more often than it may be", func() bool { return s.two.boots > before+systemBoots+1 })
	s.must(os.Remove(s.two.env("uncounted")))
	if status := s.awaitRest("it ends once the boot loader counts", number); status.Upgrade.State != rolledBack {
		s.t.Errorf("it ended %s", status.Upgrade.State)
	}
	s.dropIn(s.t, s.unit(""))
	s.far.awaitAll(s.t)
}
