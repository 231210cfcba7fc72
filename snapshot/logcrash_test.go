package snapshot

import (
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// logCrash judges the images of a crash at every operation of a story, while it is told.
type logCrash struct {
	t        *testing.T
	open     func(*disktest.Mem) (*LogStore, error)
	mem      *disktest.Mem
	y        *story
	stop     int // so many failures end it; 1: a planted fault, every operation is judged
	every    int // else every so many operations are
	mu       sync.Mutex
	crasher  disktest.Crasher
	ops      int
	failures []error
}

const testLogSegment = 32 << 10

func (c *logCrash) op(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops++
	if len(c.failures) >= c.stop || c.stop > 1 && c.ops%c.every != 0 {
		return
	}
	n := c.y.when(math.MaxInt) // before the image is taken: a promise made meanwhile is not asked for
	salt := fnv.New64a()
	fmt.Fprint(salt, n.acked, n.first, n.aside)
	c.crasher.Images(c.mem, salt.Sum64(), func(image *disktest.Mem) {
		if len(c.failures) >= c.stop {
			return
		}
		s, err := c.open(image)
		if err == nil {
			err = c.y.judge(s, n)
			_ = s.Close()
		}
		if err != nil {
			c.failures = append(c.failures, fmt.Errorf("after operation %d, %s: %w", c.ops, op, err))
		}
	})
}

// runLogStory tells the story on a crash file system.
func runLogStory(t *testing.T, seed uint64, bugs faults, store storeFaults, stop int) (states int, failures []error) {
	t.Helper()
	return runStory(t, seed, bugs, store, stop, 1, func(m *disktest.Mem) (*LogStore, error) { return openTestLog(m, "ck", testLogSegment) })
}

// runStory judges one in rarely operations: opening some stores takes long.
func runStory(t *testing.T, seed uint64, bugs faults, store storeFaults, stop, rarely int, open func(*disktest.Mem) (*LogStore, error)) (states int, failures []error) {
	t.Helper()
	mem := disktest.NewMem()
	s, err := open(mem)
	if err != nil {
		t.Fatal(err)
	}
	s.bugs = store
	every := 1
	if testing.Short() {
		every = 8
	}
	c := &logCrash{t: t, open: open, every: every * rarely, mem: mem, stop: stop, crasher: disktest.Crasher{Seed: 7, PerCall: 250}}
	c.y = &story{seed: seed, ops: func() int { return 0 }}
	mem.OnOp(c.op)
	err = c.y.tell(t, smallStore{s}, bugs)
	mem.OnOp(nil)
	_ = s.Close()
	if err != nil {
		c.failures = append(c.failures, err)
	}
	return c.crasher.Distinct(), c.failures
}

func TestCrashStatesLog(t *testing.T) {
	states, failures := 0, 0
	for seed := range uint64(4) {
		n, failed := runLogStory(t, seed, faults{}, storeFaults{}, 5)
		for _, err := range failed {
			t.Errorf("seed %d: %v", seed, err)
		}
		states, failures = states+n, failures+len(failed)
	}
	if states < 2000 && !testing.Short() {
		t.Errorf("only %d states", states)
	}
	t.Logf("%d states, %d failures", states, failures)
}

func TestCrashStatesLogFindPlantedFaults(t *testing.T) {
	for name, f := range map[string]struct {
		c faults
		s storeFaults
	}{
		"RULES 12: prune after trim":         {c: faults{trimBeforePrune: true}},
		"trim below the newest checkpoint":   {c: faults{retainNewest: true}},
		"manifest before deltas":             {s: storeFaults{manifestFirst: true}},
		"RULES 9: setting aside not durable": {s: storeFaults{asideUnsynced: true}},
		"base not synced":                    {s: storeFaults{baseUnsynced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			_, failures := runLogStory(t, 1, f.c, f.s, 1)
			if len(failures) == 0 {
				t.Fatal("not found")
			}
			t.Log("found: ", failures[0])
		})
	}
}
