package device

import (
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// cutsOfUpgrades are where the power is cut in the upgrades of the long form.
var cutsOfUpgrades = []upgradeCase{
	{want: upgrade.Committed, at: stateLine + "fetching"}, // from the package's program, which has no steps to stand at
	{want: upgrade.Committed, step: "upgrade-after-accepted-passed"},
	{want: upgrade.Committed, step: "upgrade-staged"},
	{want: upgrade.Committed, step: "upgrade-before-draining-drained"},
	{want: upgrade.Committed, step: "upgrade-after-draining-drained"},
	{want: upgrade.RolledBack, bad: "crash"},
	{want: upgrade.Committed, step: "upgrade-after-saved-switching"},
	{want: upgrade.Committed, at: trialLine},
	{want: upgrade.RolledBack, bad: "crash", at: trialLine},
	{want: upgrade.Committed, step: "upgrade-before-probation-passed"},
	{want: upgrade.RolledBack, bad: "silent", at: trialLine},
	{want: upgrade.Committed, step: "upgrade-after-probation-passed"},
	{want: upgrade.RolledBack, bad: "crash", at: backLine},
	{want: upgrade.Committed, at: stateLine + "committed"},
	{want: upgrade.Committed},
	{want: upgrade.RolledBack, bad: "silent"},
	{want: upgrade.RolledBack, bad: "hungry", at: trialLine},
}

// What weir-boot says of a start of a program on trial, and when there is none left.
const (
	trialLine = "is on trial; it has"
	backLine  = "has no start left, and is gone back from"
)

// cutsOfOne are those of the short form, one of which is drawn.
var cutsOfOne = []string{"", stateLine + "fetching", stateLine + "staged", stateLine + "saved", trialLine, stateLine + "committing", stateLine + "committed"}

// upgraded has the machine upgraded again and again.
func upgraded(st *stage, next string) {
	u := newUpgrades(st, next)
	defer func() {
		st.t.Logf("program | power cut | found by the boot | requests not flushed | outcome | results | why\n%s", u.table.String())
	}()
	if form() != "long" {
		u.run(upgradeCase{want: upgrade.Committed, at: cutsOfOne[st.random.IntN(len(cutsOfOne))]})
		return
	}
	for _, c := range cutsOfUpgrades {
		u.run(c)
	}
}

// tornProgram is the planted fault: a helper that does not sync what it puts into a slot. The power is cut as soon as the upgrade is committed.
func tornProgram(t *testing.T, h hardware, next string) {
	st := newStage(t, h, seed(t))
	st.hardware.append += " device.fault"
	st.modes = []volatiledisk.Mode{volatiledisk.Drop}
	st.boot()
	st.startFeed()
	u := newUpgrades(st, next)
	c := upgradeCase{at: stateLine + "committed"}
	from := u.consoleBytes()
	target := u.order(&c)
	u.awaitInstant(&c, from)
	st.cut()
	st.boot()
	_, torn := u.found()
	is := u.running()
	t.Logf("found: %v; program %.12s runs, and %.12s was committed", torn, is, target)
	if torn == nil || is == target {
		t.Error("the planted fault is not found")
	}
	st.stop()
}

// faultyHelper is weir-boot with planted faults, beside weir with planted faults.
func faultyHelper(weir string) string {
	return filepath.Join(filepath.Dir(weir), "weir-boot-linux-arm64")
}
