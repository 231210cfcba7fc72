package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// gcPercent keeps the heap near what lives: a gateway has little memory and the agent makes little garbage.
	gcPercent = 50
	// memoryShare of what the service may use becomes the collector's soft limit; the rest is for stacks, mapped files and
	// the page cache that is accounted to the service.
	memoryShare = 0.7
	// gcPercentReplay: a replay runs on a desk, ends soon and makes garbage with every line; its live heap is a few MiB.
	gcPercentReplay = 400
)

// spendMemory lets the heap grow for speed, within the memory limit.
func spendMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercentReplay)
	}
}

// limitMemory sets the collector up unless the environment did (GOGC, GOMEMLIMIT).
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		if limit := memoryAllowed(os.ReadFile); limit > 0 {
			debug.SetMemoryLimit(int64(float64(limit) * memoryShare))
		}
	}
}

// memoryAllowed is the least of the service's cgroup limits (systemd's MemoryHigh and MemoryMax) and half of the machine's memory, in bytes; 0: unknown.
func memoryAllowed(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	take := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if b, err := read("/proc/self/cgroup"); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			group, v2 := strings.CutPrefix(line, "0::")
			if !v2 {
				continue
			}
			for _, name := range []string{"memory.high", "memory.max"} {
				if b, err := read("/sys/fs/cgroup" + strings.TrimSuffix(group, "/") + "/" + name); err == nil {
					take(parseBytes(string(b), 1))
				}
			}
		}
	}
	if b, err := read("/proc/meminfo"); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				take(parseBytes(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 1024) / 2)
			}
		}
	}
	return least
}

// parseBytes reads a number of units; "max" and whatever is no number are 0.
func parseBytes(text string, unit int64) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}
