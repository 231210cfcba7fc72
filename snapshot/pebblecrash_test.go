package snapshot

import (
	"context"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/pebblekv"
)

func openTestPebble(kv pebblekv.LogOptions) func(m *disktest.Mem) (*LogStore, error) {
	return func(m *disktest.Mem) (*LogStore, error) {
		return openPebble(context.Background(), LogOptions{FS: m, Dir: "ck", Pipeline: testPipeline, Logger: discard()}, kv)
	}
}

// TestCrashStatesPebble: the story of TestCrashStatesLog over Pebble's own files, lost, torn and reordered in the same way.
func TestCrashStatesPebble(t *testing.T) {
	if !pebblekv.Built {
		t.Skip("built without Pebble")
	}
	states, failures := 0, 0
	for seed := range uint64(2) {
		n, failed := runStory(t, seed, faults{}, storeFaults{}, 5, 12, openTestPebble(pebblekv.LogOptions{}))
		for _, err := range failed {
			t.Errorf("seed %d: %v", seed, err)
		}
		states, failures = states+n, failures+len(failed)
	}
	t.Logf("%d states, %d failures", states, failures)
}

func TestCrashStatesPebbleFindPlantedFaults(t *testing.T) {
	if !pebblekv.Built {
		t.Skip("built without Pebble")
	}
	var unsynced pebblekv.LogOptions
	unsynced.PlantUnsynced()
	for name, f := range map[string]struct {
		c  faults
		s  storeFaults
		kv pebblekv.LogOptions
	}{
		"RULES 12: prune after trim":         {c: faults{trimBeforePrune: true}},
		"manifest before deltas":             {s: storeFaults{manifestFirst: true}},
		"RULES 9: setting aside not durable": {s: storeFaults{asideUnsynced: true}},
		"base not synced":                    {s: storeFaults{baseUnsynced: true}},
		"a sync that does nothing":           {kv: unsynced},
	} {
		t.Run(name, func(t *testing.T) {
			_, failures := runStory(t, 1, f.c, f.s, 1, 1, openTestPebble(f.kv))
			if len(failures) == 0 {
				t.Fatal("not found")
			}
			t.Log("found: ", failures[0])
		})
	}
}
