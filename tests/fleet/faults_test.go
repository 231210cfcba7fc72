package fleet

import (
	"strings"
	"testing"
)

// TestFaultsAreFound: each claim is asked for again with a mistake in the program, and must be found broken.
func TestFaultsAreFound(t *testing.T) {
	needMachine(t)
	if !long() {
		t.Skip("takes half a minute: make fleet")
	}
	p := newAttacked(t, 1)
	all := map[string]attack{}
	for _, a := range p.attacks() {
		all[a.name] = a
	}
	for fault, name := range map[string]string{"fleet-any-serial": "an old roll-out again", "fleet-any-place": "a roll-out for another channel", "fleet-talks": "a truncated roll-out"} {
		g := p.faulty(fault)
		problems := p.attack(all[name], []*gateway{g})
		g.kill()
		if t.Log(fault, ": ", strings.Join(problems, "; ")); len(problems) == 0 {
			t.Errorf("%s is not found", fault)
		}
	}
	g := p.faulty("fleet-every-ring")
	problems := p.flood(g)
	g.kill()
	if t.Log("fleet-every-ring: ", strings.Join(problems, "; ")); len(problems) == 0 {
		t.Error("fleet-every-ring is not found")
	}
	g = p.faulty("fleet-twice")
	problems = p.restart(g)
	g.kill()
	if t.Log("fleet-twice: ", strings.Join(problems, "; ")); len(problems) == 0 {
		t.Error("fleet-twice is not found")
	}
}

// faulty is one more gateway, with a mistake.
func (p *plant) faulty(fault string) *gateway {
	p.t.Helper()
	more := p.add(1, attackPoll, "WEIR_FAULT="+fault)
	p.start(more)
	return more[0]
}

// TestBlindnessIsFound: with an operator who overlooks failures the bad release goes beyond its wave, and that is seen.
func TestBlindnessIsFound(t *testing.T) {
	needMachine(t)
	if !long() {
		t.Skip("takes half a minute: make fleet")
	}
	p := newPlant(t, 4, attackTalk, "WEIR_FLEET_POLL=300ms")
	p.release("1.2.0", "crash")
	p.start(p.gateways)
	p.known()
	id := p.rollBad("1.2.0")
	first, rest := p.cohort(id, 250)
	operator := p.reconciles("blind", "WEIR_FAULT=fleet-blind")
	p.ends(operator)
	problems := p.haltedIn("1.2.0", factoryVersion, first, rest)
	if t.Log(strings.Join(problems, "; ")); len(problems) == 0 {
		t.Error("an operator who overlooks failures is not found")
	}
}
