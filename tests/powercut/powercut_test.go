//go:build !arm && !386

package powercut

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

var (
	buildDir string // where it is built to
	building sync.Once
	lacking  string // why it cannot run here
	weirFlag = flag.String("weir", "", "the agent's program, built with -tags weirfault; empty: it is built")
	seedFlag = flag.Uint64("seed", 0, "seed of the rounds, as a failed run printed it; 0: a new one")
)

// insideEnv tells the process that it has a mount namespace of its own.
const insideEnv = "WEIR_POWERCUT_INSIDE"

// TestMain runs the tests in a child with mounts of its own: when it dies, however, the kernel unmounts, and loop devices go with their mounts.
func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case os.Getenv(insideEnv) != "":
		os.Exit(inside(m))
	case os.Geteuid() != 0:
		lacking = "mounting needs root"
	default:
		if code, started := outside(); started {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// outside runs the tests in the child. A container may not allow it; then they are not run at all.
func outside() (code int, started bool) {
	runtime.LockOSThread() // Pdeathsig is of the thread that starts the child
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		lacking = fmt.Sprintf("no mounts of its own: %v", err)
		return 0, false
	}
	if err := cmd.Wait(); err != nil {
		fmt.Fprintf(os.Stderr, "the tests, with mounts of their own: %v\n", err)
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 { // by a signal
		code = 1
	}
	return code, true
}

func inside(m *testing.M) int {
	sweep(baseDir())
	if lacking = probe(); lacking != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "weir-under-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	buildDir = dir
	return m.Run()
}

// probe tries everything that a round needs of the machine, and says what is lacking.
func probe() (lacking string) {
	dir, err := os.MkdirTemp(baseDir(), fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	img, err := format(dir)
	if err != nil {
		return err.Error()
	}
	s, err := newShelf(dir)
	if err != nil {
		return err.Error()
	}
	defer s.close()
	mounts, err := os.MkdirTemp("", dirPrefix+"probe-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(mounts)
	h, err := mount(s, volatiledisk.FromImage(img), 0, mounts, "")
	if err != nil {
		return err.Error()
	}
	if err := h.close(); err != nil {
		return err.Error()
	}
	return ""
}

// needMachine skips a test by name where it cannot run.
func needMachine(t *testing.T) {
	t.Helper()
	if lacking != "" {
		t.Skipf("NOT TESTED HERE: power cuts beneath ext4 (make powercut): %s", lacking)
	}
}

// TestMachine tells whether the power cuts run here. make test shows what it says.
func TestMachine(t *testing.T) { needMachine(t) }

// needWeir builds the agent under test.
func needWeir(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes and mounts; not in -short")
	}
	needMachine(t)
	building.Do(func() {
		if binary = *weirFlag; binary != "" {
			return
		}
		file := filepath.Join(buildDir, "weir")
		if err := rig.BuildWeir(file, "-tags", "weirfault"); err != nil {
			t.Fatal(err)
		}
		binary = file
	})
	if binary == "" {
		t.Fatal("there is no agent to test")
	}
}

func long() bool { return os.Getenv("WEIR_CRASH") == "long" }

// A flush of an SD card takes so long: a good one, and one that is tired.
const sdCard, tired = 10 * time.Millisecond, 30 * time.Millisecond

// variants: ext4 as it comes and with data in its journal, both QoS, disks that flush at once and slowly.
func variants() []variant {
	all := []variant{
		{name: "ordered", mount: "data=ordered", qos: 1, flushTakes: sdCard},
		{name: "journal", mount: "data=journal", qos: 1, flushTakes: sdCard},
		{name: "ordered-qos2", mount: "data=ordered", qos: 2, flushTakes: sdCard},
		{name: "ordered-fast", mount: "data=ordered", qos: 1},
		{name: "ordered-slow", mount: "data=ordered", qos: 1, flushTakes: tired},
	}
	for i := range all {
		v := &all[i]
		v.rate, v.images, v.cuts, v.slowness, v.patience = 300, 21, 3, 30*time.Millisecond, rig.Patience
		if long() {
			v.images, v.cuts = 40, 6
		}
	}
	return all
}

// TestPowerCut: at every crash point all that was promised is there, nothing comes twice, and fsck finds nothing.
func TestPowerCut(t *testing.T) {
	needWeir(t)
	var table []string
	for _, v := range variants() {
		v.tally = &tally{}
		t.Run(v.name, func(t *testing.T) {
			seed := drawSeed(t)
			for _, p := range v.run(t, seed) {
				t.Error(p)
			}
		})
		if v.tally.images+v.tally.cuts > 0 { // it was asked for
			table = append(table, v.tally.row(v.name))
		}
	}
	t.Logf("\n%s\n%s", head, strings.Join(table, "\n"))
}

const head = "round           images  cuts   bad  unflushed/point  nothing unflushed  messages  time"

func (t *tally) row(name string) string {
	points := max(1, t.images+t.cuts)
	return fmt.Sprintf("%-15s %6d %5d %5d %16.1f %18d %9d  %v", name, t.images, t.cuts, t.bad, float64(t.unflushed)/float64(points), t.empty, t.messages, t.took.Round(time.Second))
}

func drawSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: go test ./tests/powercut -run '%s$' -seed %d)", seed, t.Name(), seed)
	return seed
}
