// Package whole measures the way of a message from the broker to the upstream, against what a bare program pays for a part
// of it in the same run. It runs with WEIR_BENCH=1 (make bench), prints a line per figure with its target, and never fails on
// timing: the machine decides that, and the reader.
//
// Broker, publisher, subscriber, receiver and agent are processes of their own, so that the CPU time of each is its own.
// This test's binary plays all of them but the agent (WEIR_BENCH_ROLE).
package whole

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

const roleEnv = "WEIR_BENCH_ROLE"

// roles are what a child does; each gets the words behind its name and prints what it found.
var roles = map[string]func(args []string) error{
	"broker":    brokerMain,
	"publisher": publisherMain,
	"bare":      bareMain,
	"receiver":  receiverMain,
	"handloop":  handLoopMain,
}

var weir string // the agent under test, built by TestMain

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(roleEnv)); len(words) > 0 {
		if err := roles[words[0]](words[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	if os.Getenv("WEIR_BENCH") == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	weir = filepath.Join(dir, "weir")
	if err := buildAgent(weir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// buildAgent builds as the Makefile does, without symbols.
func buildAgent(name string, env ...string) error {
	cmd := exec.Command("make", "-s", "-C", "../../..", "small", "OUT="+name)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return nil
}

func needBench(t *testing.T) {
	t.Helper()
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
}

// play starts this binary in a role; what it prints goes to the file that is returned.
func play(t testing.TB, role string, args ...any) (child *rig.Child, output string) {
	t.Helper()
	words := role
	for _, a := range args {
		words += " " + fmt.Sprint(a)
	}
	output = filepath.Join(t.TempDir(), role+".out")
	child, err := rig.StartChild(output, []string{roleEnv + "=" + words}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Kill)
	return child, output
}

// finish waits for a child that ends by itself and reads what it printed.
func finish(t *testing.T, child *rig.Child, output string, limit time.Duration) string {
	t.Helper()
	select {
	case <-child.Done():
	case <-time.After(limit):
		child.Kill()
		t.Fatalf("%s did not end in %v: %s", filepath.Base(output), limit, read(output))
	}
	return read(output)
}

func read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// figure prints one result: the median of the runs, their spread, the target and the machine's load.
func figure(t *testing.T, name, unit string, target string, runs ...float64) {
	t.Helper()
	slices.Sort(runs)
	load := "?"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Fields(string(b))[0]
	}
	t.Logf("FIGURE %-34s %9.3f %-10s target %-10s (%d runs, %.3f to %.3f, load %s)", name, runs[len(runs)/2], unit, target, len(runs), runs[0], runs[len(runs)-1], load)
}
