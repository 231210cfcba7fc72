package log

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// crashRun drives a log through several lives, each ended by a kill or a power cut, and opens every image that a power cut may leave
// at any operation on the way.
type crashRun struct {
	crasher  disktest.Crasher
	bugs     faults
	config   Config
	rng      *rand.Rand
	failures []string

	mu      sync.Mutex
	records map[uint64]string // appended, by position
	last    uint64            // appended
	acked   uint64            // must survive
	trim    uint64            // records from here on must be held
	serial  int

	skips bool            // positions are left out now and then
	left  map[uint64]bool // those
}

func (c *crashRun) fail(format string, args ...any) {
	if len(c.failures) < 1000 {
		c.failures = append(c.failures, fmt.Sprintf(format, args...))
	}
}

// check opens an image and compares.
func (c *crashRun) check(op string, img *disktest.Mem, records map[uint64]string, acked, last, trim uint64) {
	l, rec, err := open(Options{FS: img, Dir: "/log", Config: c.config}, c.bugs)
	if err != nil {
		c.fail("%s: open: %v", op, err)
		return
	}
	defer l.Close()
	if l.Last() < acked || l.Last() > last {
		c.fail("%s: last is %d, acknowledged %d, appended %d", op, l.Last(), acked, last)
	}
	if len(rec.Lost) > 0 && !c.skips {
		c.fail("%s: damage reported: %+v", op, rec.Lost)
	}
	if l.First() > max(trim, 1) {
		c.fail("%s: first is %d, trimmed below %d", op, l.First(), trim)
	}
	r, err := l.Reader(l.First())
	if err != nil {
		c.fail("%s: %v", op, err)
		return
	}
	for pos := l.First(); pos <= l.Last(); {
		b, err := r.Next(context.Background())
		if err != nil {
			c.fail("%s: read %d: %v", op, pos, err)
			return
		}
		for ; b.Lost && pos <= b.Last; pos++ {
			if !c.left[pos] {
				c.fail("%s: %d reads as lost, and was not left out", op, pos)
			}
		}
		for at, rec := range b.Records() {
			if at != pos || records[at] != string(rec) {
				c.fail("%s: record %d (want %d) is %.40q, want %.40q", op, at, pos, rec, records[at])
			}
			pos++
		}
		if b.Last+1 != pos {
			c.fail("%s: block ends at %d, want %d", op, b.Last, pos-1)
			return
		}
	}
}

func (c *crashRun) hook(m *disktest.Mem) func(string) {
	return func(op string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.crasher.Images(m, c.acked<<20^c.trim, func(img *disktest.Mem) {
			c.check(op, img, c.records, c.acked, c.last, c.trim)
		})
	}
}

// life opens the log, works, and ends in a kill or a cut. It gives the file system that the next life finds.
func (c *crashRun) life(m *disktest.Mem, steps int) *disktest.Mem {
	m.OnOp(c.hook(m))
	f := disktest.NewFaulty(m)
	l, _, err := open(Options{FS: f, Dir: "/log", Config: c.config}, c.bugs)
	if err != nil {
		c.fail("open: %v", err)
		return nil
	}
	c.mu.Lock()
	for pos := l.Last() + 1; pos <= c.last; pos++ {
		delete(c.records, pos)
	}
	c.last, c.acked = l.Last(), l.Last() // a reader may have seen it (RULES 8)
	c.mu.Unlock()
	l.OnDurable(func(pos uint64, err error) {
		if err == nil {
			c.mu.Lock()
			c.acked = max(c.acked, pos)
			c.mu.Unlock()
		}
	})
	for range steps {
		c.append(l, 1+c.rng.IntN(6))
		if c.rng.IntN(3) > 0 {
			_ = l.Sync(context.Background())
		}
		if c.skips && c.rng.IntN(5) == 0 {
			c.skip(l)
		}
		if c.rng.IntN(12) == 0 && l.Durable() > 20 {
			c.mu.Lock()
			c.trim = max(c.trim, l.Durable()-c.rng.Uint64N(20))
			c.mu.Unlock()
			_ = l.Trim(c.trim)
		}
	}
	kill := c.rng.IntN(2) == 0
	if kill {
		f.KillAtSync(1 + c.rng.IntN(2))
		for range 3 {
			c.append(l, 1+c.rng.IntN(4))
			_ = l.Sync(context.Background())
		}
	}
	f.Kill()
	_ = l.Close()
	m.OnOp(nil)
	if kill {
		return m
	}
	var images []*disktest.Mem
	(&disktest.Crasher{Seed: c.rng.Uint64()}).Images(m, 0, func(img *disktest.Mem) { images = append(images, img) })
	return images[c.rng.IntN(len(images))]
}

// skip leaves positions out, with records that wait for their sync or without.
func (c *crashRun) skip(l *Log) {
	c.mu.Lock()
	upTo := l.Last() + 1 + c.rng.Uint64N(8)
	for pos := l.Last() + 1; pos <= upTo; pos++ {
		c.left[pos] = true
		c.last = pos
	}
	c.mu.Unlock()
	if l.SkipTo(context.Background(), upTo) == nil && l.Durable() < upTo {
		c.fail("positions up to %d are to be left out durably, durable is %d", upTo, l.Durable())
	}
}

func (c *crashRun) append(l *Log, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.serial++
		size := 10 + c.rng.IntN(300)
		if c.rng.IntN(8) == 0 {
			size = 1000 + c.rng.IntN(4000)
		}
		rec := record(uint64(c.serial), size)
		if pos, err := l.Append(rec); err == nil {
			c.records[pos], c.last = string(rec), pos
		}
	}
}

// run goes through lives until it has seen the wanted number of distinct images.
func (c *crashRun) run(states, steps int) {
	for round := 0; c.crasher.Distinct() < states && round < 200; round++ {
		c.records, c.last, c.acked, c.trim, c.left = map[uint64]string{}, 0, 0, 0, map[uint64]bool{}
		m := disktest.NewMem()
		for range 6 {
			if m = c.life(m, steps); m == nil {
				break
			}
		}
		if len(c.failures) > 0 {
			return
		}
	}
}

func newCrashRun(seed uint64, bugs faults) *crashRun {
	if bugs.frameRaw == 0 {
		bugs.frameRaw = 1500
	}
	return &crashRun{crasher: disktest.Crasher{Seed: seed, PerCall: 10}, bugs: bugs, config: small(), rng: rand.New(rand.NewPCG(seed, 2))}
}

func TestCrashStates(t *testing.T) {
	states := 6000
	if testing.Short() {
		states = 2000
	}
	const seed = 1
	c := newCrashRun(seed, faults{})
	c.run(states, 12)
	t.Logf("seed %d: %d distinct crash states, %d failures", seed, c.crasher.Distinct(), len(c.failures))
	for _, f := range c.failures[:min(len(c.failures), 5)] {
		t.Error(f)
	}
	if c.crasher.Distinct() < 2000 {
		t.Errorf("only %d states", c.crasher.Distinct())
	}
}

// TestCrashStatesOfLeftOutPositions: what SkipTo left out stays so, and no record that was appended before or behind moves.
func TestCrashStatesOfLeftOutPositions(t *testing.T) {
	const seed = 5
	c := newCrashRun(seed, faults{})
	c.skips = true
	c.run(1500, 12)
	for _, f := range c.failures[:min(len(c.failures), 5)] {
		t.Error(f)
	}
	planted := newCrashRun(seed, faults{jumpUnwritten: true})
	planted.skips = true
	planted.run(1500, 12)
	if len(planted.failures) == 0 {
		t.Error("positions that are left out in memory only are not found")
	}
}

// TestCrashStatesOfAGrowingLog: segment files of many sizes, made, recycled and removed.
func TestCrashStatesOfAGrowingLog(t *testing.T) {
	const seed = 3
	c := newCrashRun(seed, faults{})
	c.config.SegmentBytesMin, c.config.SegmentBytes, c.config.SpareSegments = 8<<10, 64<<10, 2
	c.run(2000, 24)
	t.Logf("seed %d: %d distinct crash states, %d failures", seed, c.crasher.Distinct(), len(c.failures))
	for _, f := range c.failures[:min(len(c.failures), 5)] {
		t.Error(f)
	}
	if c.crasher.Distinct() < 1000 {
		t.Errorf("only %d states", c.crasher.Distinct())
	}
}

// TestPlantedFaultsAreFound shows that the crash states would find each mistake.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, bugs := range map[string]faults{
		"epoch left out of the checksum":  {noEpoch: true},
		"directory not synced":            {noDirSync: true},
		"no fdatasync":                    {noSync: true},
		"none in segments used again":     {reuseUnsynced: true},
		"old segment not synced":          {oldNotSynced: true},
		"tail not settled before readers": {tailNotSynced: true},
		"acknowledged before the sync":    {ackEarly: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrashRun(1, bugs)
			c.run(20000, 12)
			if len(c.failures) == 0 {
				t.Fatalf("not found in %d states", c.crasher.Distinct())
			}
			t.Logf("found after %d states: %s", c.crasher.Distinct(), c.failures[0])
		})
	}
}
