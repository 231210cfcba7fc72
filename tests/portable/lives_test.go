package portable

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
)

// leg is a life of the pipeline on one machine.
type leg struct {
	machine string
	setting
	killed bool // it ends by kill -9, and the next agent goes on from checkpoint and journal as they lie there
}

// short goes from every processor to every other one, both ways between each pair of backends, checkpoint stores and parallelisms.
var short = []leg{
	{"arm64", setting{1, "memory", "log"}, false},
	{"amd64", setting{3, "pebble", "bbolt"}, false},
	{"arm64", setting{3, "memory", "log"}, true},
	{"armv7", setting{1, "pebble", "log"}, false},
	{"amd64", setting{1, "memory", "bbolt"}, true},
	{"armv7", setting{3, "memory", "bbolt"}, false},
	{"arm64", setting{1, "pebble", "pebble"}, false},
	{"amd64", setting{3, "memory", "log"}, false},
}

// drawn is a long way through all that there is.
func drawn(random *rand.Rand, n int) (all []leg) {
	for i := range n {
		l := leg{machine: []string{"arm64", "armv7", "amd64"}[random.IntN(3)], killed: i < n-1 && random.IntN(3) == 0}
		l.setting = setting{1 + random.IntN(4), []string{"memory", "pebble"}[random.IntN(2)], []string{"log", "bbolt", "pebble"}[random.IntN(3)]}
		if i > 0 && all[i-1].killed { // the checkpoints lie in that store
			l.store = all[i-1].store
		}
		all = append(all, l)
	}
	return all
}

// TestLivesOnOtherProcessors: a pipeline with every step that keeps state moves from processor to processor, by savepoints and by its bare state
// directory, while messages come. What it makes is what an agent makes that stays where it is and is never stopped.
func TestLivesOnOtherProcessors(t *testing.T) {
	needMachines(t)
	legs, per, random := short, 160, rand.New(rand.NewPCG(5, 6))
	if long() {
		legs, per = append(legs, drawn(random, 40)...), 400
	}
	s, stay := travel(t, legs, per, random)
	want, rows := stay.results(), 0
	for _, step := range steps {
		if len(want[step]) == 0 {
			t.Errorf("step %s makes nothing", step)
		}
		rows += len(want[step])
	}
	for _, d := range differences(s.results(), want) {
		t.Error(d)
	}
	s.savepointsAreRead()
	t.Logf("%d legs, %d savepoints, %d rows", len(legs), len(s.files), rows)
}

// TestALostRecordIsFound: a restore that leaves out three records, on the way of a pipeline that does not even change processors.
func TestALostRecordIsFound(t *testing.T) {
	needMachines(t)
	same := leg{"amd64", setting{1, "memory", "log"}, false}
	machines["faulty"] = &machine{name: "faulty", weir: faulty}
	defer delete(machines, "faulty")
	s, stay := travel(t, []leg{same, {"faulty", same.setting, false}}, 160, rand.New(rand.NewPCG(7, 8)), "WEIR_FAULT=restore-late")
	if len(differences(s.results(), stay.results())) == 0 {
		t.Error("not found")
	}
}

// travel takes a pipeline through its legs, so many messages in each, and another one through the same messages where it is.
func travel(t *testing.T, legs []leg, per int, random *rand.Rand, env ...string) (s, stay *site) {
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	s, stay = newSite(t, broker, "weir-moves"), newSite(t, broker, "weir-stays")
	s.env = env
	stay.start(machines["amd64"], setting{1, "memory", "log"})
	all, sent := messages(random, per*len(legs)), 0
	publish := func(n int) {
		for _, m := range all[sent:min(sent+n, len(all))] {
			broker.Publish(m.topic, 1, false, m.payload)
		}
		sent = min(sent+n, len(all))
	}
	savepoint := ""
	for i, l := range legs {
		if savepoint == "" {
			s.start(machines[l.machine], l.setting)
		} else {
			s.resume(machines[l.machine], l.setting, savepoint)
		}
		publish(per / 2)
		s.reads(sent - per/4)
		publish(per / 4) // they are under way when it ends
		switch {
		case i == len(legs)-1:
			publish(len(all))
		case l.killed:
			s.agent.Kill()
			savepoint = ""
		default:
			savepoint = s.stop(func() int {
				publish(per / 4)
				return sent
			})
		}
	}
	if env == nil {
		s.settle(len(all))
	} else {
		s.reads(len(all))
	}
	stay.settle(len(all))
	return s, stay
}

// savepointsAreRead: every processor reads the same out of every savepoint, and writes the same, to the last byte.
func (s *site) savepointsAreRead() {
	for _, file := range s.files {
		said, written := map[string]string{}, map[string]string{}
		for name, m := range machines {
			run := func(in string, args ...string) string {
				out, err := s.pipe(strings.NewReader(in), m, args...)
				if err != nil {
					s.t.Errorf("weir %s on %s: %v\n%s", strings.Join(args, " "), name, err, out)
				}
				return out
			}
			again := filepath.Join(s.dir, name+".savepoint")
			entries := run("", "state", "export", file)
			said[name] = run("", "savepoint", "verify", file) + run("", "savepoint", "inspect", file) + entries
			run(entries, "state", "import", again)
			b, err := os.ReadFile(again)
			s.must(err)
			s.must(os.Remove(again))
			written[name] = string(b)
		}
		for name := range machines {
			if said[name] != said["amd64"] {
				s.t.Errorf("%s reads something else out of %s than amd64", name, filepath.Base(file))
			}
			if written[name] != written["amd64"] {
				s.t.Errorf("%s writes another savepoint than amd64", name)
			}
		}
	}
}
