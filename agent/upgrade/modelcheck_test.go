package upgrade

import (
	"fmt"
	"strings"
	"testing"
)

// graph is all that can be reached.
type graph struct {
	index map[string]int
	list  []world
	fair  [][]int
}

// add gives the numbers of worlds, known or not.
func (g *graph) add(worlds ...world) (numbers []int) {
	for i := range worlds {
		k := worlds[i].key()
		n, known := g.index[k]
		if !known {
			n = len(g.list)
			g.index[k] = n
			g.list = append(g.list, worlds[i])
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// explore goes through all that a world can become, breadth first.
func (m *model) explore(begin ...world) *graph {
	g := &graph{index: map[string]int{}}
	g.add(begin...)
	for i := 0; i < len(g.list) && m.wrong == ""; i++ {
		g.fair = append(g.fair, g.add(m.fair(g.list[i])...))
		g.add(m.adverse(g.list[i])...)
	}
	return g
}

// well: an upgrade is at an end, and the pipelines run.
func (w *world) well() bool {
	return w.alive && w.told && w.r.Resting() && w.run == RunAll && !w.r.Unreverted
}

// waits for help from outside: no slot holds a program, or only one that may not run.
func (w *world) waits() bool {
	if !w.alive || !w.told || w.run != RunNone {
		return false
	}
	a := Decide(w.r, Situation{Booted: w.booted, Rescue: w.rescue})
	return w.fenced || a.Do == Control && !(a.Leave && w.usable(w.r.Active))
}

// ends tells what keeps a run without crashes from its end: where nothing comes next, all is well or help is waited for, and nothing goes round for ever.
func (g *graph) ends() string {
	const fresh, open, done = 0, 1, 2
	color := make([]byte, len(g.list))
	type frame struct{ at, next int }
	for root := range g.list {
		stack := []frame{{root, 0}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			w := &g.list[f.at]
			if color[f.at] == done {
				stack = stack[:len(stack)-1]
				continue
			}
			color[f.at] = open
			if f.next == 0 && len(g.fair[f.at]) == 0 && !w.well() && !w.waits() {
				return fmt.Sprintf("it ends, and no pipeline runs: %s", w)
			}
			if f.next == len(g.fair[f.at]) {
				color[f.at] = done
				continue
			}
			n := g.fair[f.at][f.next]
			f.next++
			if color[n] == open {
				return fmt.Sprintf("it goes round for ever: %s", &g.list[n])
			}
			if color[n] == fresh {
				stack = append(stack, frame{n, 0})
			}
		}
	}
	return ""
}

// machines: the first upgrade ever, a later one, and one of a whole system.
func machines(quality string) (list []world) {
	before := Record{State: Failed, Number: 1, Active: SlotA, Standby: SlotB, From: Target{SHA256: digest("0")}, Target: Target{SHA256: digest("9")}}
	for _, w := range []world{
		{slots: [3]string{"old", "", ""}},
		{slots: [3]string{"old", "old", ""}, r: before},
		{slots: [3]string{"old", "old", ""}, r: before, loader: true, primary: SlotA, left: -1},
	} {
		w.quality, w.lineage, w.run = quality, "old", RunNone
		list = append(list, w)
	}
	return list
}

// check gives the first thing that is wrong, and how much was looked at.
func (m *model) check(begin []world) (wrong string, worlds int, ends map[State]int) {
	g := m.explore(begin...)
	ends = map[State]int{}
	for i := range g.list {
		if g.list[i].well() {
			ends[g.list[i].r.State]++
		}
	}
	if m.wrong != "" {
		return m.wrong, len(g.list), ends
	}
	return g.ends(), len(g.list), ends
}

// TestModel: over every order of steps, crashes, power cuts, damage and halts, with programs good and bad; and from anywhere. Together they meet all that the package has.
func TestModel(t *testing.T) {
	seen, parts := modelled{}, 0
	for _, part := range []struct {
		name string
		run  func(*testing.T, modelled)
	}{{"qualities", modelQualities}, {"two upgrades", modelOfTwo}, {"damage", modelOfDamage}, {"another package", modelOfAnotherPackage}, {"a fence", modelOfAFence}, {"anywhere", modelFromAnywhere}} {
		t.Run(part.name, func(t *testing.T) {
			part.run(t, seen)
			parts++
		})
	}
	if parts < 6 {
		return // -run has asked for some of them, or one has failed
	}
	for _, lacking := range seen.lacking(t) {
		t.Errorf("the model knows no %s", lacking)
	}
}

func (m *model) mustHold(t *testing.T, name string, begin []world) (worlds int, ends map[State]int) {
	t.Helper()
	wrong, worlds, ends := m.check(begin)
	t.Logf("%-24s %6d worlds, at rest and well: %v", name, worlds, ends)
	if wrong != "" {
		t.Fatalf("%s: %s", name, wrong)
	}
	return worlds, ends
}

func modelQualities(t *testing.T, seen modelled) {
	for _, q := range qualities {
		worlds, ends := (&model{seen: seen, asks: []string{"new1"}, many: 1, rots: 1}).mustHold(t, q, machines(q))
		if ends[Failed] == 0 || ends[Committed] == 0 || ends[RolledBack] == 0 && q != "fails its self-test" || worlds < 1000 { // a bad one's committed is that of the rescue
			t.Errorf("%s: %d worlds, %v", q, worlds, ends)
		}
	}
}

// modelOfTwo: what the first upgrade leaves behind does the second one no harm, and what was rejected is not tried again.
func modelOfTwo(t *testing.T, seen modelled) {
	for _, q := range []string{"good", "crashes at once", "corrupts its state"} {
		(&model{seen: seen, asks: []string{"new1", "new2"}, many: 2}).mustHold(t, q, machines(q)[1:])
	}
}

// modelOfDamage: every slot may be damaged, at any time; the factory's program gets help from outside.
func modelOfDamage(t *testing.T, seen modelled) {
	(&model{seen: seen, asks: []string{"new1"}, many: 1, rots: 2}).mustHold(t, "good", machines("good")[1:2])
}

// modelOfAnotherPackage: at any start the factory's program may take over, since somebody has installed another package.
func modelOfAnotherPackage(t *testing.T, seen modelled) {
	for _, q := range []string{"good", "corrupts its state"} {
		(&model{seen: seen, asks: []string{"new1"}, many: 1, swap: true}).mustHold(t, q, machines(q)[:2])
	}
}

// modelOfAFence: another device takes the place at any moment, this one is started as often as it likes, and given its place back: no such start says anything against a program, and the upgrade ends as any other.
func modelOfAFence(t *testing.T, seen modelled) {
	for _, q := range []string{"good", "now so, now so"} {
		(&model{seen: seen, asks: []string{"new1"}, many: 1, fence: true}).mustHold(t, q, machines(q))
	}
}

// TestModelFindsFaults: the model is able to fail.
func TestModelFindsFaults(t *testing.T) {
	for _, c := range []struct{ fault, quality, found string }{
		{"fenced starts count", "good", "a start of a fenced device"},
		{"another package forgets the upgrade", "good", "goes on from what new1 made"},
		{"tries written behind exec", "crashes at once", "round for ever"},
		{"results leave before committed", "now so, now so", "gone back from"},
		{"released in committing", "good", "gone back from"},
		{"nothing is dropped", "corrupts its state", "lets results of new1 go"},
		{"S is let go at the switch", "never ready, or hangs", "S is gone"},
		{"the old program runs in committing", "good", "results leave"},
	} {
		wrong, worlds, _ := (&model{fault: c.fault, asks: []string{"new1"}, many: 1, fence: strings.Contains(c.fault, "fenced"), swap: strings.Contains(c.fault, "package")}).check(machines(c.quality))
		if !strings.Contains(wrong, c.found) {
			t.Errorf("planted %q is not found in %d worlds: %s", c.fault, worlds, wrong)
		}
	}
}
