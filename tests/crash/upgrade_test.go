package crash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

var (
	nextOnce sync.Once
	nextFile string
	nextErr  error
)

// upgradeCase is a crash at a step of an upgrade whose program is good, or bad in a way.
type upgradeCase struct{ step, bad, want string }

func (c upgradeCase) name() string {
	return cmp.Or(strings.TrimPrefix(c.step, "upgrade-"), "no-crash") + "/" + cmp.Or(c.bad, "good")
}

// upgradeCases are all durable steps of both programs (agent/upgrader.go, note), before and behind each, and the acts between them.
func upgradeCases() (list []upgradeCase) {
	both := func(bad, want string, steps ...string) { list = append(list, bothSides(bad, want, steps...)...) }
	list = append(list, upgradeCase{"", "", "committed"}, upgradeCase{"upgrade-before-rest-asked", "", "none"}, upgradeCase{"upgrade-after-rest-asked", "", "committed"})
	both("", "committed", "accepted-passed", "fetching-fetched", "staged-ready", "draining-drained", "saved-switching", "probation-passed", "committing-confirmed")
	list = append(list, upgradeCase{"upgrade-staged", "", "committed"}, upgradeCase{"upgrade-activated", "", "committed"}, upgradeCase{"upgrade-marked-good", "", "committed"})
	for _, bad := range []string{"exit", "corrupt", "sink", "restore", "spoil"} {
		list = append(list, upgradeCase{"", bad, "rolled back"})
	}
	both("restore", "rolled back", "probation-failed", "started", "rollback-reverted", "restoring-restored")
	both("corrupt", "rolled back", "rollback-reverted")
	both("spoil", "rolled back", "rollback-reverted")
	list = append(list, upgradeCase{spoilPassed, "spoil", "rolled back"})
	return append(list, upgradeCase{"upgrade-undone", "restore", "rolled back"})
}

func bothSides(bad, want string, steps ...string) (list []upgradeCase) {
	for _, step := range steps {
		for _, side := range []string{"before", "after"} {
			list = append(list, upgradeCase{"upgrade-" + side + "-" + step, bad, want})
		}
	}
	return list
}

// upgradeCasesLong are of the long form alone: each way of being bad at each step of the way back, and one of them on the whole way there.
func upgradeCasesLong() (list []upgradeCase) {
	const back = "rolled back"
	for _, bad := range []string{"exit", "corrupt", "sink", "spoil"} {
		list = append(list, upgradeCase{"upgrade-undone", bad, back})
		list = append(list, bothSides(bad, back, "restoring-restored")...)
	}
	list = append(list, bothSides("exit", back, "rollback-reverted")...)
	list = append(list, bothSides("sink", back, "probation-failed", "rollback-reverted")...)
	list = append(list, upgradeCase{"upgrade-after-probation-halted", "spoil", back}, upgradeCase{"upgrade-staged", "restore", back}, upgradeCase{"upgrade-activated", "restore", back})
	return append(list, bothSides("restore", back, "accepted-passed", "fetching-fetched", "staged-ready", "draining-drained", "saved-switching")...)
}

// TestUpgradeKilledAtEveryStep: each upgrade ends committed or gone back from, pipelines run, and the receiver has each result once. A table of step, crash and outcome is printed.
func TestUpgradeKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s := &scenario{qos: 1, messages: 0, rate: 1000, streams: savedStreams, patience: 3 * time.Minute}
	k := newKeeper(t, s)
	n := 0
	publish := func() { n = k.publishSome(n) }
	table := &strings.Builder{}
	cases := upgradeCases()
	if long() {
		cases = append(cases, upgradeCasesLong()...)
	}
	for i, c := range cases {
		if !long() && i%shortEvery != 0 {
			continue
		}
		publish()
		t.Run(c.name(), func(t *testing.T) { // one behind the other, on the same gateway
			of := k.t
			k.t = t
			defer func() { k.t = of }()
			k.run(c, publish, table)
		})
	}
	t.Logf("step × program × outcome:\n%s", table)
	k.startAgentOfRecord()
	s.messages, s.more = n, nil
	k.publishFlush(n)
	verdicts, problems := k.finish(s)
	wantExact(t, verdicts, problems)
}

// TestUpgradeFaults: results that leave on trial, and results that are let go before the commit is durable must be found, by the rows that the program on trial makes: they were never published. Without a fault there are none of them,
// nor where results leave at least once.
func TestUpgradeFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	for _, c := range []struct{ fault, step, mode string }{
		{"none", "", "at-least-once"}, {"apply-live", "", "exactly-once"}, {"upgrade-hasty", spoilPassed, "exactly-once"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			s := &scenario{qos: 1, rate: 1000, streams: savedStreams, patience: 3 * time.Minute, env: []string{"WEIR_FAULT=" + c.fault}}
			s.config = strings.Replace(saved, "interval: 200ms", "interval: 200ms, mode: "+c.mode, 1)
			k := newKeeper(t, s)
			n := 0
			publish := func() { n = k.publishSome(n) }
			publish()
			k.run(upgradeCase{c.step, "spoil", "rolled back"}, publish, &strings.Builder{})
			k.startAgentOfRecord()
			s.messages = n
			k.publishFlush(n)
			verdicts, problems := k.finish(s)
			wrong := slices.ContainsFunc(verdicts, func(v verdict) bool { return len(v.Wrong) > 0 })
			if wrong != (c.fault != "none") {
				t.Errorf("wrong rows: %v: %v %v", wrong, verdicts, problems)
			}
		})
	}
}

// TestUpgradeUnheldFault: a journal that does not hold S lets go of records on trial, and the way back misses them.
func TestUpgradeUnheldFault(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for _, fault := range []string{"", "WEIR_FAULT=apply-unheld"} {
		s := &scenario{qos: 1, rate: 1000, streams: savedStreams, patience: 3 * time.Minute, env: []string{"WEIR_BAD=sink", "WEIR_TRIAL_LIMIT=1h"}}
		if fault != "" {
			s.env = append(s.env, fault)
		}
		k := newKeeper(t, s)
		n := k.publishSome(0)
		k.start()
		k.await("rest", rests)
		file, release := k.program()
		if out, err := k.weir("upgrade", file, "--release", release); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		k.await("the trial", func(s *api.Status) bool {
			return s.Upgrade != nil && s.Upgrade.State == "probation" && len(s.Pipelines) == 1 && s.Pipelines[0].State == "running"
		})
		first := k.look().Journal.First
		for range 2 { // segments are left behind
			for end := n + 12_000; n < end; n++ {
				payload, _ := json.Marshal(messageOf(n))
				k.publish(topicOf(n), payload)
			}
		}
		k.await("the program on trial works", func(s *api.Status) bool { return s.Pipelines[0].Lag == 0 && s.Journal.Last >= uint64(n) })
		if fault != "" {
			k.await("the journal lets go", func(s *api.Status) bool { return s.Journal.First > first })
		}
		if out, err := k.weir("upgrade", "abort", "--why", "a test"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lost := false
		k.await("the way back", func(s *api.Status) bool {
			lost = len(s.Pipelines) == 1 && (s.Pipelines[0].State == "failed" || s.Pipelines[0].Restarts > 0)
			return lost || rests(s) && s.Upgrade.State == "rolled back"
		})
		k.stop()
		if fault != "" {
			if !lost {
				t.Error("the planted fault was not found")
			}
			continue
		}
		k.startAgentOfRecord()
		s.messages = n
		k.publishFlush(n)
		verdicts, problems := k.finish(s)
		wantExact(t, verdicts, problems)
	}
}

// published is how many messages come between two steps.
const published = 30

// publishSome publishes messages from the n-th on; it gives the next one's number.
func (k *keeper) publishSome(n int) int {
	for end := n + published; n < end; n++ {
		payload, _ := json.Marshal(messageOf(n))
		k.publish(topicOf(n), payload)
	}
	return n
}

// shortEvery: the short form has one case in so many, good programs and bad ones, old ones and new ones among them.
const shortEvery = 5

// run carries one case out.
func (k *keeper) run(c upgradeCase, publish func(), table *strings.Builder) {
	k.t.Helper()
	var env []string
	if c.step != "" {
		env = append(env, "WEIR_DIE_AT="+c.step)
	}
	if c.bad != "" {
		env = append(env, "WEIR_BAD="+c.bad)
	}
	if c.bad == "spoil" { // until it has made its rows
		env = append(env, "WEIR_TRIAL_LIMIT=1h")
	} else if c.bad != "" {
		env = append(env, "WEIR_TRIAL_LIMIT=1s")
	}
	k.start()
	before := uint64(0)
	if s := k.await("rest", rests); s.Upgrade != nil {
		before = s.Upgrade.Number
	}
	k.stop()
	k.start(env...)
	defer k.stop()
	k.await("rest", rests)
	file, release := k.program()
	out, err := exec.Command(binary, "upgrade", file, "--release", release, "-c", filepath.Join(k.dir, "weir.yaml")).CombinedOutput()
	if err != nil && !strings.Contains(c.step, "rest-asked") {
		k.dump()
		k.t.Fatalf("%+v: %v: %s", c, err, out)
	}
	if c.bad == "spoil" {
		k.spoil(c, publish)
	} else {
		publish()
	}
	if c.step != "" {
		k.awaitDeath(c)
	}
	if c.want == "none" {
		k.await("rest", rests)
		fmt.Fprintf(table, "%-36s %-8s %s\n", c.step, c.bad, c.want)
		return
	}
	s := k.await("the end of "+c.step+" "+c.bad, func(s *api.Status) bool { return rests(s) && s.Upgrade != nil && s.Upgrade.Number > before })
	k.mu.Lock()
	fmt.Fprintf(table, "%-36s %-8s %-12s %d starts, incarnation %s %s\n", c.step, c.bad, s.Upgrade.State, k.starts, s.Identity.Incarnation, s.Upgrade.Why)
	k.mu.Unlock()
	k.t.Logf("%+v: %s", c, s.Upgrade.State)
	if s.Upgrade.State != c.want {
		k.dump()
		k.t.Errorf("%+v ended %s: %s", c, s.Upgrade.State, s.Upgrade.Why)
	}
	publish()
}

// spoilPassed is where a program is killed that passes though its rows are wrong: the gates cannot see that. Committed, it would have them all leave.
const spoilPassed = "upgrade-before-probation-passed"

// spoil has the program on trial make wrong rows, then gives the upgrade up.
func (k *keeper) spoil(c upgradeCase, publish func()) {
	k.t.Helper()
	onTrial := func(s *api.Status) bool {
		return s.Upgrade != nil && s.Upgrade.State == "probation" && len(s.Pipelines) == 1 && s.Pipelines[0].State == "running"
	}
	last := k.await("the trial of "+c.step, onTrial).Journal.Last
	publish()
	k.await("wrong rows", func(s *api.Status) bool { return onTrial(s) && s.Pipelines[0].Position >= last+published })
	if c.step == spoilPassed {
		k.awaitDeath(c)
		k.await("the trial again", onTrial)
	}
	if out, err := k.weir("upgrade", "abort", "--why", "a test"); err != nil {
		k.dump()
		k.t.Fatalf("%v: %s", err, out)
	}
}
