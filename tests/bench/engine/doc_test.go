// Package engine_test measures the engine alone, through `weir replay`'s code and in this process: the queries of Nexmark beside loops written by
// hand, windows that overlap beside windows that do not, many keys beside few, allocations per record. It runs with WEIR_BENCH=1 (make bench),
// on one core, by CPU time, what is compared side by side in turns. It prints a line per figure with its target and never fails on timing: the
// machine decides that, and the reader.
package engine_test

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/pipeline/topic"
)

func needBench(t *testing.T) {
	t.Helper()
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	old := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// run replays a recording through the first pipeline of a config and gives how many results there were.
func run(t *testing.T, text string, recording []byte, out io.Writer) (results uint64) {
	t.Helper()
	c, err := config.Parse("bench.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	g := c.Pipelines[0].Graph
	var routes []replay.Route
	for _, s := range g.Sources {
		routes = append(routes, replay.Route{Source: s.Name, Match: func(name []byte) bool { return topic.Match(s.Filter, name) }})
	}
	counts, err := replay.Run(t.Context(), replay.Options{Graph: g, Routes: routes, Input: bytes.NewReader(recording), Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if counts.Dead > 0 {
		t.Fatalf("%d dead letters", counts.Dead)
	}
	for _, n := range counts.Sinks {
		results += n
	}
	return results
}

// cpuOf is the CPU time of this process while f runs, with what it leaves to the collector.
func cpuOf(f func()) time.Duration {
	runtime.GC()
	before := ownCPU()
	f()
	runtime.GC()
	return ownCPU() - before
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// figure prints one result: the median of the runs, their spread, the target and the machine's load.
func figure(t *testing.T, name, unit, target string, runs ...float64) {
	t.Helper()
	runs = slices.Sorted(slices.Values(runs))
	load := "?"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Fields(string(b))[0]
	}
	t.Logf("FIGURE %-44s %12.3f %-12s target %-8s (%d runs, %.3f to %.3f, load %s)", name, runs[len(runs)/2], unit, target, len(runs), runs[0], runs[len(runs)-1], load)
}
