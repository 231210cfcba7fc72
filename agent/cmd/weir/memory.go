package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/boards"
)

const (
	// gcPercent keeps the heap near what lives: a gateway has little memory and the agent makes little garbage.
	gcPercent = 50
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
func limitMemory(cfg *config.Config, machine boards.Facts, logger *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	limit, v := cfg.MemoryLimit(machine, os.Getenv("GOMEMLIMIT"))
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	logger.Debug("memory limit", "is", v.Value, "from", v.From)
}
