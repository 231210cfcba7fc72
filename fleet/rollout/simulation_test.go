package rollout

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/fleet/pace"
)

const simGateways = 100_000

// usual is what weir does when nothing is set, and hurried what would be without a spread to speak of.
var (
	usual   = pace.Pace{Poll: 5 * time.Minute, Spread: 2 * time.Minute}
	hurried = pace.Pace{Poll: 5 * time.Minute, Spread: 10 * time.Second}
)

// held tells that the page has a row of figures as they come out here: whoever changes a rule changes the page.
func held(t *testing.T, row string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), row) {
		t.Errorf("docs/fleet.md has not this row:\n%s", row)
	}
}

// plainly is a duration as a config has it.
func plainly(d time.Duration) string { return strings.Replace(d.String(), "m0s", "m", 1) }

func clockOf(seconds int) string {
	d := (time.Duration(seconds) * time.Second).Round(time.Minute)
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// TestPollingLoad: what 100,000 gateways ask for while nothing happens, in an hour that is like each other.
func TestPollingLoad(t *testing.T) {
	for _, bell := range []bool{false, true} {
		m := simulate(simulated{gateways: simGateways, seconds: 2 * 3600, bell: bell, pace: usual, idle: true})
		peak, mean := m.peak(m.seconds)
		months := 30 * day / float64(m.seconds)
		what := "every 5 min"
		if bell {
			what = "every 60 min, with a doorbell"
		}
		want := float64(simGateways*pace.RequestsPerLook) / m.every()
		if mean < want*0.9 || mean > want*1.1 {
			t.Errorf("%s: %.0f requests a second, want about %.0f", what, mean, want)
		}
		held(t, fmt.Sprintf("| %s | %.0f | %d | %.0f GB | $%.0f |", what, mean, peak, m.gigabytes()*months, float64(m.gets)*months/1e6*dollarsPerMillionGets))
	}
}

// TestRolloutOfAGoodRelease: each wave comes in its order and time, who is away joins late, and all end committed.
func TestRolloutOfAGoodRelease(t *testing.T) {
	for _, c := range []struct {
		bell bool
		pace pace.Pace
	}{{false, usual}, {true, hurried}, {true, usual}} {
		m := simulate(simulated{gateways: simGateways, seconds: 2 * day, bell: c.bell, pace: c.pace, away: 50, rollsBack: 2})
		n := m.lastVerdict.Counts
		if m.haltedAt > 0 || m.doneAt == 0 || len(m.waveBegan) != 3 || n.Known != simGateways || n.Bad() > simGateways/200 {
			t.Fatalf("%+v: halted %d, done %d, waves %v: %+v", c, m.haltedAt, m.doneAt, m.waveBegan, m.lastVerdict)
		}
		for i := range 2 {
			if m.waveBegan[i+1]-m.waveBegan[i] < 6*3600 {
				t.Errorf("wave %d was too short: %v", i+1, m.waveBegan)
			}
		}
		peak, _ := m.peak(m.doneAt)
		what := "polls every 5 min"
		if c.bell {
			what = fmt.Sprintf("doorbell, `spread: %s`", plainly(c.pace.Spread))
		}
		held(t, fmt.Sprintf("| %s | %s | %d | %.1f TB | $%.0f |", what, clockOf(m.doneAt), peak, m.gigabytes()/1000, m.dollars()))
	}
}

// badReleases are told apart by how they fail.
var badReleases = []struct {
	what            string
	dies, rollsBack int
}{
	{"every upgrade is gone back from", 0, 1000}, {"one in five is gone back from", 0, 200}, {"every gateway falls silent", 1000, 0}, {"one in five falls silent", 200, 0},
}

// TestBadReleasesAreHalted: in the first wave, within the time that silence takes.
func TestBadReleasesAreHalted(t *testing.T) {
	for _, c := range badReleases {
		m := simulate(simulated{gateways: simGateways, seconds: day, bell: true, pace: usual, away: 50, dies: c.dies, rollsBack: c.rollsBack})
		if m.haltedAt == 0 || m.doc.Wave != 0 || m.switched > simGateways*12/1000 {
			t.Fatalf("%s: halted %d, wave %d, %d gateways: %+v", c.what, m.haltedAt, m.doc.Wave, m.switched, m.lastVerdict)
		}
		if most := 3600 + reconcileSeconds; c.dies == 0 && m.haltedAt > most || m.haltedAt > most+2*3600 {
			t.Errorf("%s: halted after %s", c.what, clockOf(m.haltedAt))
		}
		held(t, fmt.Sprintf("| %s | %s | %d |", c.what, clockOf(m.haltedAt), m.switched))
	}
}

// TestSimulationFindsFaults plants faults in who judges: each shows in what becomes of the fleet.
func TestSimulationFindsFaults(t *testing.T) {
	const n = 5000
	run := func(fault planted, dies, back int) *simulation {
		return simulate(simulated{gateways: n, seconds: day, bell: true, pace: usual, away: 50, dies: dies, rollsBack: back, fault: fault})
	}
	reached := func(m *simulation) bool { return m.switched > n/50 }
	if m := run(planted{}, 1000, 0); m.haltedAt == 0 || reached(m) {
		t.Fatalf("without a fault: halted %d, %d gateways", m.haltedAt, m.switched)
	}
	if m := run(planted{silenceIgnored: true}, 1000, 0); m.haltedAt > 0 {
		t.Error("a judge that takes silence for slowness is not found: it halted")
	}
	if m := run(planted{silenceIgnored: true}, 600, 0); m.haltedAt > 0 || !reached(m) {
		t.Errorf("a judge that takes silence for slowness is not found: %d gateways lost", m.switched)
	}
	if m := run(planted{haltLost: true}, 0, 1000); m.haltedAt > 0 {
		t.Error("a halt that nobody writes down is not found")
	}
	if m := run(planted{noSoak: true}, 0, 0); len(m.waveBegan) < 3 || m.waveBegan[1] >= 6*3600 {
		t.Errorf("a wave that need not last is not found: %v", m.waveBegan)
	}
	if m := run(planted{waveClock: true}, 0, 0); len(m.waveBegan) < 3 || m.waveBegan[2]-m.waveBegan[1] >= 6*3600 {
		t.Errorf("a wave that keeps the time of the one before is not found: %v", m.waveBegan)
	}
}
