package systemd

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// The durable steps of an upgrade, and the acts between two of them, in their order. agent/upgrader.go names them; those of the helper are killed at in agent/boot's own tests.
var (
	stepsOfOrder = both("rest-asked")
	stepsForth   = slices.Concat(both("accepted-passed", "fetching-fetched"), []string{"upgrade-staged"}, both("staged-ready", "draining-drained", "saved-switching"), []string{"upgrade-activated"})
	stepsStay    = slices.Concat(both("probation-passed"), []string{"upgrade-marked-good"}, both("committing-confirmed"))
	stepsBack    = slices.Concat([]string{"upgrade-undone"}, both("rollback-reverted", "restoring-restored")) // all of them the old program's
)

// both sides of steps: where the record is not yet durable, and where it is.
func both(names ...string) (steps []string) {
	for _, name := range names {
		steps = append(steps, "upgrade-before-"+name, "upgrade-after-"+name)
	}
	return steps
}

// stepsOf are those on the way of a case. What the old program does before the switch is the same whatever the new one is like: own leaves it out, but for a good one and one that cannot read the state.
func stepsOf(c *upgradeCase) (steps []string) {
	judged := both("probation-failed") // by itself; else the helper counts its starts
	switch c.bad {
	case "crash", "exit", "silent", "corrupt":
		judged = nil
	}
	full := wholeMatrix() || c.bad == "restore" && c.env == ""
	switch {
	case c.want == refused:
		return nil // nothing is recorded
	case c.want == committed && (c.env == "" || full):
		return slices.Concat(stepsOfOrder, stepsForth, stepsStay)
	case c.want == committed:
		return stepsStay
	case c.want == failed && c.step == "":
		return both("accepted-failed")
	case c.want == failed:
		return both("fetching-failed")
	case c.step == "upgrade-staged": // the helper finds it, and says so to the old program
		return slices.Concat(stepsForth[slices.Index(stepsForth, "upgrade-staged")+1:], both("started"), stepsBack)
	case full:
		return slices.Concat(stepsOfOrder, stepsForth, judged, stepsBack)
	}
	return slices.Concat(judged, stepsBack)
}

// crashesOf are a case with kill -9 of the agent, and with the end of process 1, at each of its steps.
func crashesOf(of *upgradeCase) (list []upgradeCase) {
	for _, crash := range []string{killAgent, killOne} {
		for _, step := range stepsOf(of) {
			c := *of
			c.says, c.crash, c.short = "", crash, false
			if c.step == "" {
				c.step = step
			} else {
				c.then = step
			}
			switch {
			case step == stepsOfOrder[0]:
				c.want = none
			case of.step == "upgrade-staged" && step == "upgrade-before-staged-ready": // it is staged anew, and found then
				c.want = failed
			case of.name == "good":
				c.short = crash == killAgent && step == "upgrade-after-saved-switching" || crash == killOne && step == "upgrade-before-probation-passed"
			}
			list = append(list, c)
		}
	}
	if of.name != "good" {
		return list
	}
	for _, step := range both("started") { // the old program's, within its upgrade
		for _, first := range []string{"upgrade-after-staged-ready", "upgrade-after-draining-drained"} {
			list = append(list, upgradeCase{name: of.name, step: first, then: step, crash: killAgent, want: committed})
		}
	}
	return list
}

// plantSteps has the agent die, or stand still, at the steps of a case. Where something is done to the machine first, the step to die at is planted behind that (crash).
func (u *upgrading) plantSteps(c *upgradeCase) {
	u.t.Helper()
	how := c.step
	if c.crash != killAgent || c.at != nil {
		how += " pause"
	}
	if c.then != "" && c.at == nil {
		u.plant("then", c.then)
	}
	u.plant("step", how)
}

// crash waits until the agent has come to the step, where it dies, or dies with the machine, or goes on when the case has done what it does.
func (u *upgrading) crash(c *upgradeCase) {
	u.t.Helper()
	reached := func() {
		u.t.Helper()
		u.await("the agent comes to "+c.step+" "+c.then, func() bool { return !u.planted("then") && !u.planted("step") && u.planted("reached") })
	}
	remove := func() { u.must(os.Remove(u.path(matrixDir + "/reached"))) }
	reached()
	if c.at != nil {
		c.at(u)
		if c.then != "" {
			how := c.then
			if c.crash == killOne {
				how += " pause"
			}
			u.plant("step", how)
			remove()
			reached()
		}
	}
	if c.crash != killOne {
		remove()
		return
	}
	u.far.unplug()
	u.killInit(u.t, remove)
	u.far.plug(u.t)
}

// wholeMatrix: what the old program does before the switch is crashed for every kind of program as well. It takes hours.
func wholeMatrix() bool { return os.Getenv("WEIR_SYSTEMD") == "whole" }

// partOfMatrix: WEIR_MATRIX=1/3 has the first of three parts run, so that several machines can share the work.
func partOfMatrix(t *testing.T) (part, parts int) {
	t.Helper()
	asked := os.Getenv("WEIR_MATRIX")
	if asked == "" {
		return 0, 1
	}
	if n, err := fmt.Sscanf(asked, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
		t.Fatalf("WEIR_MATRIX=%s is no part such as 1/3", asked)
	}
	return part - 1, parts
}
