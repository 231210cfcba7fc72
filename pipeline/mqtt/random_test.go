package mqtt

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random scenarios; 0 = a fixed set")

// scenario is what happens around the messages.
type scenario struct {
	qos      byte
	ids      rig.IDScheme
	window   int
	messages int
	steps    int
}

// runScenario publishes numbered messages while agent, line and broker fail, and compares at the end.
func runScenario(t *testing.T, seed uint64, sc scenario, f faults) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newBroker(t, rig.BrokerConfig{IDs: sc.ids, Window: sc.window, ResendWindow: int(seed % 4)})
	c := testConfig("mqtt://"+b.Addr(), sc.qos)
	j := newMemJournal()
	a := startAgent(t, j, c, f)
	a.waitReady()
	var want []string
	for range sc.steps {
		for range rng.IntN(2*sc.messages/sc.steps + 1) {
			p := fmt.Sprint("m", len(want))
			want = append(want, p)
			publish(b, sc.qos, p)
		}
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
		switch rng.IntN(8) {
		case 0, 1: // power cut: a part of what was not synced survives
			a.kill()
			j = j.reborn(rng.IntN(j.unsynced() + 1))
			a = startAgent(t, j, c, f)
		case 2: // kill -9: the page cache survives
			a.kill()
			j = j.reborn(j.unsynced())
			a = startAgent(t, j, c, f)
		case 3, 4:
			b.Drop(testClient)
		case 5:
			b.Restart()
		case 6: // one more drop in the middle of what is re-sent
			b.DropAfter(testClient, 1+rng.IntN(10))
			b.Drop(testClient)
		case 7:
			a.stop()
			j = j.reborn(0)
			a = startAgent(t, j, c, f)
		}
		if rng.IntN(4) == 0 {
			if before := j.Durable(); before > 1 {
				if err := j.trim(a.session, before-before/4); err != nil && !errors.Is(err, ErrNotRebuilt) {
					t.Fatal(err)
				}
			}
		}
	}
	a.waitReady()
	settled(t, b, testClient)
	j.mu.Lock()
	all := payloadsOf(j.entries) // trimmed ones too: the oracle is not bound by retention
	j.mu.Unlock()
	return verdict(want, all)
}

func TestRandomScenarios(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	if testing.Short() {
		seeds = seeds[:1]
	}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	for _, qos := range []byte{1, 2} {
		for _, ids := range []rig.IDScheme{rig.SequentialIDs, rig.LowestFreeIDs} {
			for _, window := range []int{3, 50} {
				for _, seed := range seeds {
					sc := scenario{qos: qos, ids: ids, window: window, messages: 300, steps: 25}
					t.Run(fmt.Sprintf("qos%d/ids%d/window%d/seed%d", qos, ids, window, seed), func(t *testing.T) {
						if wrong := runScenario(t, seed, sc, faults{}); wrong != "" {
							t.Errorf("%s; run with -seed %d", wrong, seed)
						}
					})
				}
			}
		}
	}
}

// seedsMax bounds how many scenarios are tried. What a kill meets is chance besides the seed: about every second finds an acknowledgement that came too early.
const seedsMax = 60

// TestRandomScenariosFindFaults: a harness that finds nothing proves nothing.
func TestRandomScenariosFindFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		qos  byte
		ids  rig.IDScheme
		f    faults
	}{
		{"acknowledge before the commit", 1, rig.SequentialIDs, faults{ackEarly: true}},
		{"packet id alone", 1, rig.LowestFreeIDs, faults{idAlone: true}},
		{"no release", 2, rig.LowestFreeIDs, faults{idAlone: true, noRelease: true}},
		{"one round of the sweep", 2, rig.SequentialIDs, faults{sweepOnce: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= seedsMax; seed++ {
				sc := scenario{qos: c.qos, ids: c.ids, window: 20, messages: 300, steps: 25}
				if wrong := runScenario(t, seed, sc, c.f); wrong != "" {
					t.Logf("found with seed %d: %s", seed, wrong)
					return
				}
			}
			t.Errorf("the planted fault was not found with %d seeds", seedsMax)
		})
	}
}
