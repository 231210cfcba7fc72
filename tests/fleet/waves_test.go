package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// TestFleet is a life of a fleet, one thing behind the other on the same gateways, whose pipelines work all the while.
func TestFleet(t *testing.T) {
	needMachine(t)
	if !long() {
		t.Parallel()
	}
	n, every, poll := 8, 250*time.Millisecond, "300ms"
	if long() {
		n, every, poll = 100, time.Second, "1s"
	}
	if *gatewaysFlag > 0 {
		n = max(8, *gatewaysFlag)
	}
	p := newPlant(t, n, every, "WEIR_FLEET_POLL="+poll)
	if long() {
		p.patience, p.pause = 2*p.patience, time.Second
	}
	step := p.timed()
	p.release("1.0.0", "")
	p.release("1.1.0", "")
	p.release("1.2.0", "crash")
	p.release("1.3.0", "silent")
	p.start(p.gateways)
	p.talk()
	p.known()
	step("started")
	p.spring()
	step("a good release in three waves")
	p.bad("1.2.0", "1.1.0")
	step("a release that crashes")
	p.bad("1.3.0", "1.1.0")
	step("a release that is never ready")
	p.commands()
	step("commands")
	p.back()
	step("a roll-out back")
	for _, problem := range p.finish(p.gateways) {
		t.Error(problem)
	}
	step("judged")
	p.tellStarts()
}

// timed logs how long each step took: figures for a reader, which nothing is held to.
func (p *plant) timed() func(string) {
	last := time.Now()
	return func(what string) {
		p.t.Logf("%s: %s", what, time.Since(last).Round(time.Second))
		last = time.Now()
	}
}

func (p *plant) tellStarts() {
	starts, kills := 0, 0
	for _, g := range p.gateways {
		starts += g.started()
		g.mu.Lock()
		kills += g.kills
		g.mu.Unlock()
	}
	p.t.Logf("%d starts, %d ended by kill -9", starts, kills)
}

// known waits until every gateway has reported.
func (p *plant) known() {
	p.t.Helper()
	p.awaitTold("every gateway has reported", func() (bool, string) {
		out, code := p.try(nil, append([]string{"fleet", "devices"}, p.flags()...)...)
		got := strings.Count(out, "gw-")
		return code == 0 && got == len(p.gateways), fmt.Sprintf("%d of %d", got, len(p.gateways))
	})
}

// runsVersion: it runs that version, and its pipeline.
func runsVersion(version string) func(*gateway, *api.Status) bool {
	return func(_ *gateway, s *api.Status) bool { return runs(s) && s.Version == version }
}

// beyond names the gateways that have ever run a version, and must not have.
func beyond(version string, not []*gateway) (names []string) {
	for _, g := range not {
		if ever, _ := g.has(version); ever {
			names = append(names, g.name)
		}
	}
	return names
}

// spring rolls 1.1.0 out, in three waves: by two operators at once, while some gateways are away, and others are killed in the middle of it.
func (p *plant) spring() {
	p.t.Helper()
	least := max(2, len(p.gateways)/20)
	id := p.named("spring", func(id string) bool {
		first, _ := p.cohort(id, 250)
		second, third := p.cohort(id, 600)
		return len(first) > least && len(second) > len(first)+1 && len(third) > 1 && len(first) < len(p.gateways)/2
	})
	first, rest := p.cohort(id, 250)
	_, third := p.cohort(id, 600)
	away := third[:max(1, len(third)/4)]
	for _, g := range away {
		p.must(g.stop())
	}
	p.deploy(0, "published: roll-out "+id, "fleet", "rollout", "1.1.0", "--id", id, "--waves", "25%:2s,60%:2s,100%", "--min-reports", fmt.Sprint(least), "--max-failed", "10%", "--silence", "1h")
	p.must(first[0].dieAt("upgrade-after-saved-switching"))
	p.ring()
	p.each("the first wave has it", first, runsVersion("1.1.0"))
	if early := beyond("1.1.0", rest); len(early) > 0 {
		p.t.Errorf("in the first wave others have it: %v", early)
	}
	second := slices.DeleteFunc(slices.Clone(rest), func(g *gateway) bool { return slices.Contains(third, g) })
	p.must(second[0].dieAt("upgrade-before-probation-passed"))
	operators := []*reconciler{p.reconciles("anna"), p.reconciles("berta")}
	there := slices.DeleteFunc(slices.Clone(p.gateways), func(g *gateway) bool { return slices.Contains(away, g) })
	p.ringUntil("all who are there have it", there, runsVersion("1.1.0"))
	p.awaitTold("those who are away are waited for", func() (bool, string) {
		s := p.standing()
		c := s.Verdict.Counts
		return s.Wave == 3 && !s.Verdict.Done && c.Committed == len(there) && c.Waiting == len(away), fmt.Sprintf("%+v", s)
	})
	p.start(away)
	p.each("who was away has it", away, runsVersion("1.1.0"))
	for i, o := range operators {
		if said := p.ends(o); !strings.Contains(said, fmt.Sprintf("all who are there have ended: %d committed", len(p.gateways))) {
			p.t.Errorf("operator %d: %s", i, said)
		}
	}
	for i, r := range p.history() {
		if int(r.Serial) != i+1 || r.Wave != i || r.Halted {
			p.t.Errorf("document %d has serial %d, wave %d: two operators have acted on each other's", i+1, r.Serial, r.Wave)
		}
	}
	for _, g := range []*gateway{first[0], second[0]} {
		if !g.died() {
			p.t.Errorf("%s was not killed within its upgrade", g.name)
		}
	}
	p.t.Logf("%s: waves of %d, %d and %d gateways, %d of them away", id, len(first), len(second), len(third), len(away))
}

// ringUntil rings for each new document until every gateway is as wanted.
func (p *plant) ringUntil(what string, list []*gateway, ok func(*gateway, *api.Status) bool) {
	p.t.Helper()
	serial := uint64(0)
	left := slices.Clone(list)
	p.await("each: "+what, func() (bool, string) {
		if now := p.current().Serial; now != serial {
			serial = now
			p.ring()
		}
		left = slices.DeleteFunc(left, func(g *gateway) bool {
			s := g.status(p.t.Context())
			return s != nil && ok(g, s)
		})
		var names []string
		for _, g := range left {
			names = append(names, g.name+" "+standingOf(g.status(p.t.Context())))
		}
		return len(left) == 0, fmt.Sprintf("serial %d, left %s", serial, strings.Join(names, ", "))
	})
}

// bad rolls a release out that no gateway can run: it halts at the limit, in its first wave; who had it is gone back from it.
func (p *plant) bad(version, before string) {
	p.t.Helper()
	id := p.rollBad(version)
	first, rest := p.cohort(id, 250)
	operator := p.reconciles(version)
	if said := p.ends(operator); !strings.Contains(said, "the roll-out was halted") {
		p.t.Errorf("the operator's reconciler says %s", said)
	}
	p.ring()
	for _, problem := range p.haltedIn(version, before, first, rest) {
		p.t.Error(problem)
	}
	s := p.standing()
	c := s.Verdict.Counts
	if !s.Halted || s.Wave != 1 || c.RolledBack == 0 || c.Committed != 0 {
		p.t.Errorf("%+v", s)
	}
	p.deploy(2, "it would be halted again at once", "fleet", "resume")
	p.t.Logf("%s: %s: wave of %d gateways, %d gone back from, %d halted before they began", id, s.Verdict.Why, len(first), c.RolledBack, c.Halted+c.Waiting)
}

// rollBad publishes it.
func (p *plant) rollBad(version string) (id string) {
	p.t.Helper()
	id = p.named("bad-"+version, func(id string) bool {
		first, _ := p.cohort(id, 250)
		return len(first) > 1 && len(first) <= len(p.gateways)/2
	})
	p.deploy(0, "published: roll-out "+id, "fleet", "rollout", version, "--id", id, "--waves", "25%:2s,100%", "--min-reports", "2", "--max-failed", "10%", "--silence", "1h")
	p.ring()
	return id
}

// haltedIn waits until everybody runs what ran before, and tells whom the bad release has reached that it must not have.
func (p *plant) haltedIn(version, before string, first, rest []*gateway) (problems []string) {
	p.t.Helper()
	p.each("it runs "+before+" again", p.gateways, runsVersion(before))
	if names := beyond(version, rest); len(names) > 0 {
		problems = append(problems, fmt.Sprintf("%s has reached gateways beyond its wave: %v", version, names))
	}
	if len(beyond(version, first)) == 0 {
		problems = append(problems, version+" has reached nobody: there was nothing to halt")
	}
	return problems
}

// back rolls the older release out, which is halted by hand and resumed.
func (p *plant) back() {
	p.t.Helper()
	id := p.named("back", func(id string) bool {
		first, _ := p.cohort(id, 500)
		return len(first) > 1 && len(first) < len(p.gateways)
	})
	first, rest := p.cohort(id, 500)
	p.deploy(0, "published: roll-out "+id, "fleet", "rollout", "1.0.0", "--id", id, "--waves", "50%:1s,100%", "--min-reports", "1", "--max-failed", "10%", "--silence", "1h")
	p.ring()
	p.each("the first wave is back", first, runsVersion("1.0.0"))
	p.operator(0, "halted: roll-out "+id, "fleet", "halt", "--why", "lunch", "--key", p.at("keys/deploy-1.key"))
	p.operator(10, "the roll-out is halted", "fleet", "reconcile", "--key", p.at("keys/deploy-1.key"))
	if early := beyond("1.0.0", rest); len(early) > 0 {
		p.t.Errorf("beyond the wave and behind the halt others have it: %v", early)
	}
	p.deploy(0, "goes on: roll-out "+id, "fleet", "resume")
	operator := p.reconciles("back")
	p.ringUntil("all are back", p.gateways, runsVersion("1.0.0"))
	if said := p.ends(operator); !strings.Contains(said, fmt.Sprintf("all who are there have ended: %d committed", len(p.gateways))) {
		p.t.Errorf("the operator's reconciler says %s", said)
	}
}
