package portable

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the programs are built from it: a change there must make cached results stale
	"github.com/weirstream/weir/tests/rig"
)

const root = "../.."

// machine is a processor with the build of the agent for it.
type machine struct {
	name     string
	emulator string // "": the build runs here as it is
	weir     string
}

// emulators of Debian's qemu-user-static. binfmt_misc, which would make them unseen, is not to be had in every container.
var emulators = map[string]string{"arm64": "qemu-aarch64-static", "armv7": "qemu-arm-static", "amd64": "qemu-x86_64-static"}

var (
	machines = map[string]*machine{}
	lacking  string // why there are no machines
	faulty   string // the build for this machine that has planted faults
)

func long() bool { return os.Getenv("WEIR_CRASH") == "long" }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for name, emulator := range emulators {
		if name == runtime.GOARCH {
			emulator = ""
		} else if _, err := exec.LookPath(emulator); err != nil {
			lacking = fmt.Sprintf("%s is not installed: `make deps` installs the package qemu-user-static", emulator)
			return m.Run()
		}
		machines[name] = &machine{name: name, emulator: emulator}
	}
	dir, err := os.MkdirTemp("", "weir-portable-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes what goes to gateways, by the Makefile, and a build with planted faults.
func build(dir string) error {
	targets := []string{"-s", "-C", root, "DIR=" + dir}
	for name, m := range machines {
		m.weir = filepath.Join(dir, "weir-linux-"+name)
		targets = append(targets, "cross-"+name)
	}
	cmd := exec.Command("make", targets...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") { // of the make that runs this test
			cmd.Env = append(cmd.Env, v)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", strings.Join(targets, " "), err, out)
	}
	faulty = filepath.Join(dir, "weir-faulty")
	return rig.BuildWeir(faulty, "-tags", "weirfault")
}

// command is how the agent's program is called on the machine.
func (m *machine) command(args ...string) []string {
	all := append([]string{m.weir}, args...)
	if m.emulator != "" {
		all = append([]string{m.emulator}, all...)
	}
	return all
}

// needMachines skips where they are not to be had.
func needMachines(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	if lacking != "" {
		t.Skip(lacking)
	}
}
