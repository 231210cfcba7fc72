//go:build weirfault

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// With WEIR_POWERCUT=DIR what weir run does to its files is recorded in DIR, so that the crash run can take back what was not synced when
// it killed the agent: a power cut. It is no fault. WEIR_SYNC_DELAY is how much longer each sync takes then.
//
// WEIR_FAULT=no-sync and no-flush are faults: tests/device must find them.
func init() {
	switch m := disktest.Mistake(os.Getenv("WEIR_FAULT")); m {
	case disktest.NoSync, disktest.NoFlush:
		disk.OS = disktest.Careless(disk.OS, m)
	}
	dir := os.Getenv("WEIR_POWERCUT")
	if dir == "" || len(os.Args) < 2 || os.Args[1] != "run" {
		return
	}
	delay, _ := time.ParseDuration(os.Getenv("WEIR_SYNC_DELAY")) // 0, none, when it is no duration
	recorder, err := disktest.Record(disk.OS, dir, delay)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	disk.OS = recorder
}

// plantedHoard: with WEIR_FAULT=hoard the agent gives back nothing of the memory that its start needed. tests/idle must find it.
var plantedHoard = os.Getenv("WEIR_FAULT") == "hoard"
