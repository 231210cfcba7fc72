package portable

import (
	"flag"
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

var builtFlag = flag.String("built", "", "directory with the builds, as an earlier run made them; empty: they are made")

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
	flag.Parse()
	if *builtFlag != "" {
		return use(m, *builtFlag)
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
	return use(m, dir)
}

// use runs the tests with what was built.
func use(m *testing.M, dir string) int {
	for name, m := range machines {
		m.weir = filepath.Join(dir, "weir-linux-"+name)
	}
	faulty = filepath.Join(dir, "weir-faulty")
	return m.Run()
}

// build makes what goes to gateways, by the Makefile, and a build with planted faults.
func build(dir string) error {
	targets := []string{"DIR=" + dir}
	for name := range machines {
		targets = append(targets, "cross-"+name)
	}
	if _, err := makeOf(targets...); err != nil {
		return err
	}
	return rig.BuildWeir(filepath.Join(dir, "weir-faulty"), "-tags", "weirfault")
}

// makeOf has the Makefile make something, and gives what it prints.
func makeOf(targets ...string) (string, error) {
	cmd := exec.Command("make", append([]string{"-s", "-C", root}, targets...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") { // of the make that runs this test
			cmd.Env = append(cmd.Env, v)
		}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make %s: %w\n%s%s", strings.Join(targets, " "), err, out, stderr.String())
	}
	return string(out), nil
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
