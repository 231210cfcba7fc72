package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the programs are built from it: a change there must make cached results stale
	_ "github.com/weirstream/weir/agent/boot"
	_ "github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/tests/rig"
)

var (
	binary   string // weir, with planted faults, and without a version of its own
	bootFile string // weir-boot, with its places elsewhere
)

// builtFlag: building takes much longer than the tests where many share a machine.
var builtFlag = flag.String("built", "", "directory for the programs under test: used when they are there, kept there when they were made; empty: they are made anew")

// gatewaysFlag is for a machine that has no room for a hundred.
var gatewaysFlag = flag.Int("gateways", 0, "how many gateways the fleet of TestFleet has; 0: 8, and 100 in the long form")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := *builtFlag
	if dir == "" {
		made, err := os.MkdirTemp("", "weir-under-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(made)
		dir = made
	}
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(dir string) error {
	binary, bootFile = filepath.Join(dir, "weir"), filepath.Join(dir, "weir-boot")
	if _, err := os.Stat(bootFile); err == nil {
		return nil
	}
	args := []string{"-tags", "weirfault", "-ldflags", "-s -w"}
	if err := rig.BuildWeir(binary, args...); err != nil {
		return err
	}
	return rig.BuildBoot(bootFile, args...)
}

func long() bool { return os.Getenv("WEIR_FLEET") == "long" }

// needMachine skips where releases have no programs for this processor, and in -short.
func needMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	if !strings.Contains(" amd64 arm64 arm ", " "+runtime.GOARCH+" ") {
		t.Skip("NOT TESTED HERE: releases have no programs for " + runtime.GOARCH)
	}
}

// program writes weir as another version: the same bytes but for its last line, by which it knows who it is. bad is how it is broken (agent/fault_weirfault.go); "": it is not.
func program(file, version, bad string) error {
	b, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	tail := fmt.Sprintf("\n%40s version=%s", "", version)
	if bad != "" {
		tail += " bad=" + bad
	}
	return os.WriteFile(file, append(b, tail+"\n"...), 0o755)
}

// tail is the last line of a program.
func tail(file string) (version, bad string) {
	f, err := os.Open(file)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", ""
	}
	b := make([]byte, 64)
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return "", ""
	}
	for _, word := range strings.Fields(string(b)) {
		if is, found := strings.CutPrefix(word, "version="); found {
			version = is
		}
		if is, found := strings.CutPrefix(word, "bad="); found {
			bad = is
		}
	}
	return version, bad
}
