package crash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// upgraded: as saved, with a root of trust and no time on trial beyond what is planted.
const upgraded = `
fleet: {root: ROOT}
upgrade: {backend: self, probation: 0s}
journal: {segment: 256KiB, compress: false}
`

// keeper is the service manager and the helper outside the slots: it starts what the record says, counts the starts of a program on trial, and starts again whatever ends.
type keeper struct {
	*stage
	next    string // the program that upgrades bring, but for its last bytes
	n       int    // upgrades asked for
	ended   chan struct{}
	mu      sync.Mutex
	over    bool
	planted []string // environment until a process is killed
	died    bool
	child   *rig.Child
	starts  int
	failed  error
}

func (k *keeper) store() upgrade.Store {
	return upgrade.Store{FS: disk.OS, Dir: filepath.Join(k.dir, "state", "upgrade")}
}

// start starts processes until stop; env is theirs until one of them is killed.
func (k *keeper) start(env ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over, k.planted, k.died, k.starts, k.ended = false, env, false, 0, make(chan struct{})
	go k.keep(k.ended) // ends with stop, which waits for it
}

func (k *keeper) keep(ended chan struct{}) {
	defer close(ended)
	for {
		k.mu.Lock()
		if k.over {
			k.mu.Unlock()
			return
		}
		child, err := k.boot()
		k.child, k.failed = child, err
		k.starts++
		k.mu.Unlock()
		if err != nil {
			return
		}
		<-child.Done()
		k.mu.Lock()
		k.died = k.died || child.Killed()
		k.mu.Unlock()
	}
}

// boot counts, and starts.
func (k *keeper) boot() (*rig.Child, error) {
	r, err := k.store().Read()
	if err != nil {
		return nil, err
	}
	program := func(s upgrade.Slot) string {
		if s == upgrade.Factory {
			return binary
		}
		return filepath.Join(k.dir, "slots", string(s))
	}
	n, link, _ := upgrade.Boot(r, upgrade.Moment{}, func(s upgrade.Slot) bool { _, err := os.Stat(program(s)); return err == nil })
	if n.State != upgrade.Idle {
		if err := k.store().Save(&n); err != nil {
			return nil, err
		}
	}
	env := append([]string{"WEIR_SLOTS=" + filepath.Join(k.dir, "slots"), "WEIR_SLOT=" + string(link), "WEIR_TRIAL=100ms"}, k.env...)
	for _, e := range k.planted {
		if !k.died || !strings.HasPrefix(e, "WEIR_DIE_AT=") {
			env = append(env, e)
		}
	}
	return rig.StartChild(filepath.Join(k.dir, "agent.log"), env, program(link), "run", "-c", filepath.Join(k.dir, "weir.yaml"))
}

// stop kills what runs.
func (k *keeper) stop() {
	k.mu.Lock()
	k.over = true
	if k.child != nil {
		k.child.Kill()
	}
	k.mu.Unlock()
	<-k.ended
}

func (k *keeper) dead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed != nil {
		k.t.Fatal(k.failed)
	}
	return k.died
}

// program writes another program with its release: the same one, but for its last bytes.
func (k *keeper) program() (file, release string) {
	k.n++
	b, err := os.ReadFile(k.next)
	k.must(err)
	file, release = filepath.Join(k.dir, "next"), filepath.Join(k.dir, "release.json")
	k.must(os.WriteFile(file, fmt.Appendf(b, "\nprogram %d\n", k.n), 0o755))
	signed, err := rig.Release(k.t.Context(), file, "v2", nil)
	k.must(err)
	k.must(os.WriteFile(release, signed, 0o644))
	return file, release
}

func (k *keeper) look() *api.Status {
	out, err := exec.Command(binary, "status", "-o", "json", "-c", filepath.Join(k.dir, "weir.yaml")).Output()
	s := &api.Status{}
	if err != nil || json.Unmarshal(out, s) != nil {
		return nil
	}
	return s
}

// await waits until what runs says so.
func (k *keeper) await(what string, ok func(*api.Status) bool) *api.Status {
	k.t.Helper()
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s := k.look(); s != nil && ok(s) {
			return s
		}
		k.dead() // a keeper that cannot start anything
	}
	k.dump()
	k.t.Fatalf("%s did not happen", what)
	return nil
}

// rests: no upgrade is under way, and the pipeline runs.
func rests(s *api.Status) bool {
	if u := s.Upgrade; u != nil && u.State != "" && u.State != "committed" && u.State != "rolled back" && u.State != "failed" {
		return false
	}
	return len(s.Pipelines) == 1 && s.Pipelines[0].State == "running"
}

// newKeeper starts a stage whose agent can be upgraded.
func newKeeper(t *testing.T, s *scenario) *keeper {
	s.dir = stageDir(t)
	root, err := rig.FleetRoot(t.Context())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "root.json"), root, 0o644)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(s.dir, "slots"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.config = strings.NewReplacer("ROOT", filepath.Join(s.dir, "root.json"), "PARALLEL", "2").Replace(upgraded + cmp.Or(s.config, saved))
	k := &keeper{stage: newStage(t, s, rand.New(rand.NewPCG(1, 1))), next: nextProgram(t)}
	k.agent.Kill()
	return k
}

// nextProgram is the same source as another version.
func nextProgram(t *testing.T) string {
	t.Helper()
	nextOnce.Do(func() {
		nextFile = filepath.Join(filepath.Dir(binary), "weir-v2")
		nextErr = rig.BuildWeir(nextFile, "-tags", "weirfault", "-ldflags", "-X github.com/weirstream/weir/agent.version=v2")
	})
	if nextErr != nil {
		t.Fatal(nextErr)
	}
	return nextFile
}

func (k *keeper) weir(args ...string) (string, error) {
	out, err := exec.Command(binary, append(args, "-c", filepath.Join(k.dir, "weir.yaml"))...).CombinedOutput()
	return string(out), err
}

func (k *keeper) awaitDeath(c upgradeCase) {
	k.t.Helper()
	for deadline := time.Now().Add(rig.Patience); !k.dead(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.dump()
			k.t.Fatalf("nobody was killed at %s", c.step)
		}
	}
}

// startAgentOfRecord starts what the record says, once.
func (k *keeper) startAgentOfRecord() {
	k.planted = nil
	child, err := k.boot()
	k.must(err)
	k.agent = child
	k.t.Cleanup(child.Kill)
	k.waitReady()
}
