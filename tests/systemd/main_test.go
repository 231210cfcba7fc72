package systemd

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	_ "github.com/weirstream/weir/agent" // the package is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/tests/rig"
)

const root = "../.."

// builtFlag saves a developer the builds.
var builtFlag = flag.String("built", "", "directory for the packages and the build with planted faults: used when they are there, kept there when they were made; empty: they are made anew")

var (
	scratch string // of this run
	mu      sync.Mutex
	booted  *machine
	lacking error // why there is no machine
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "weir-systemd-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	defer func() {
		if booted != nil {
			booted.stop()
		}
	}()
	return m.Run()
}

// The packages of this run: the same program, so that an upgrade changes nothing but what dpkg does.
const (
	oldVersion = "1.0.0"
	newVersion = "1.1.0~rc.1+3.gabc"
)

// need gives the machine, with the packages in /opt. The first call boots it.
func need(t *testing.T) *machine {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if booted == nil && lacking == nil {
		booted, lacking = prepare()
	}
	if lacking != nil {
		if !errors.Is(lacking, errHere) {
			t.Fatal(lacking)
		}
		t.Skipf("NOT TESTED HERE: %v", lacking)
	}
	return booted
}

func prepare() (*machine, error) {
	switch {
	case os.Getenv("WEIR_SYSTEMD") == "":
		return nil, fmt.Errorf("%w: make systemd asks for it", errHere)
	case os.Geteuid() != 0:
		return nil, fmt.Errorf("%w: the test is not root", errHere)
	case runtime.GOARCH != "amd64":
		return nil, fmt.Errorf("%w: the root is for amd64", errHere)
	}
	archive, err := rootArchive()
	if err != nil {
		return nil, err
	}
	m, err := boot(archive, scratch)
	if err != nil {
		return nil, err
	}
	built := scratch
	if *builtFlag != "" {
		built = *builtFlag
	}
	if _, err := os.Stat(filepath.Join(built, faulty)); err != nil {
		if err := build(built); err != nil {
			return nil, err
		}
	}
	for from, to := range map[string]string{filepath.Base(debOf(oldVersion)): "/opt", filepath.Base(debOf(newVersion)): "/opt", faulty: "/usr/local/bin"} {
		if out, err := exec.Command("cp", filepath.Join(built, from), m.path(to)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	return m, nil
}

// faulty is the build with planted faults, in /usr/local/bin.
const faulty = "weir-faulty"

// build makes the packages by the Makefile, and the program with planted faults.
func build(dir string) error {
	for _, version := range []string{oldVersion, newVersion} {
		cmd := exec.Command("make", "-s", "-C", root, "deb-amd64", "DIR="+dir, "DEB_VERSION="+version)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make deb-amd64: %w: %s", err, last(out, 2000))
		}
	}
	return rig.BuildWeir(filepath.Join(dir, faulty), "-tags", "weirfault")
}
