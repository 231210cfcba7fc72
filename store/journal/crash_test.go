package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// liar is a disk whose syncs do nothing, as far as told.
type liar struct {
	disk.FS
	dirs, files bool
}

func (l liar) SyncDir(dir string) error {
	if l.dirs {
		return nil
	}
	return l.FS.SyncDir(dir)
}

func (l liar) Create(name string) (disk.File, error) {
	f, err := l.FS.Create(name)
	return l.wrap(f), err
}
func (l liar) Open(name string) (disk.File, error) { f, err := l.FS.Open(name); return l.wrap(f), err }

func (l liar) wrap(f disk.File) disk.File {
	if f == nil || !l.files {
		return f
	}
	return liarFile{f}
}

type liarFile struct{ disk.File }

func (liarFile) Sync() error { return nil }

// crashRun drives a journal with a dedup table of sorts: each session's newest entry must always be found, as itself or as
// carried, whatever was trimmed.
type crashRun struct {
	crasher  disktest.Crasher
	rng      *rand.Rand
	faults   faults
	ackEarly bool // plant: acknowledged when appended
	lie      liar
	failures []string

	mu      sync.Mutex
	entries map[pipeline.Position]*pipeline.Entry
	last    pipeline.Position
	acked   pipeline.Position
	trim    pipeline.Position
	pinned  pipeline.Position // the entry that the table needs
	serial  int
}

func (c *crashRun) fail(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

const pin = "pinned by the table"

func (c *crashRun) check(op string, img *disktest.Mem) {
	j, rec, err := Open(Options{FS: img, Dir: "/journal", Config: small()})
	if err != nil {
		c.fail("%s: open: %v", op, err)
		return
	}
	defer j.Close()
	if j.Last() < c.acked || j.Last() > c.last {
		c.fail("%s: last is %d, acknowledged %d, appended %d", op, j.Last(), c.acked, c.last)
	}
	if len(rec.Lost) > 0 || j.First() > max(c.trim, 1) {
		c.fail("%s: first %d, trimmed below %d, lost %+v", op, j.First(), c.trim, rec.Lost)
	}
	want, pinned := j.First(), false
	err = j.Scan(0, func(e *pipeline.Entry) error {
		if e.Pos != want || c.entries[want] == nil || !same(e, c.entries[want]) {
			c.fail("%s: entry %d (want %d) is %+v", op, e.Pos, want, e)
		}
		want++
		pinned = pinned || string(e.Payload) == pin
		return nil
	})
	if err != nil || want != j.Last()+1 {
		c.fail("%s: scan ends at %d, last is %d: %v", op, want, j.Last(), err)
	}
	if c.pinned > 0 && c.pinned <= c.acked && !pinned {
		c.fail("%s: what the table needs was recycled", op)
	}
}

func (c *crashRun) append(j *Journal, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.serial++
		e := entry(c.serial, 10+c.rng.IntN(300))
		if c.rng.IntN(10) == 0 {
			e = entry(c.serial, 1000+c.rng.IntN(4000))
		}
		if c.pinned == 0 {
			e = &pipeline.Entry{Kind: pipeline.EntryMessage, Session: "plant", Payload: []byte(pin)}
		}
		c.appended(j.Append(e))(e)
	}
}

// appended notes what became of an Append. mu is held.
func (c *crashRun) appended(pos pipeline.Position, err error) func(*pipeline.Entry) {
	return func(e *pipeline.Entry) {
		if err != nil {
			return
		}
		c.entries[pos], c.last = e, pos
		if string(e.Payload) == pin {
			c.pinned = pos
		}
		if c.ackEarly {
			c.acked = pos
		}
	}
}

func (c *crashRun) life(m *disktest.Mem, steps int) *disktest.Mem {
	m.OnOp(func(op string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.crasher.Images(m, uint64(c.acked)<<40^uint64(c.trim)<<20^uint64(c.pinned), func(img *disktest.Mem) { c.check(op, img) })
	})
	lie := c.lie
	lie.FS = m
	f := disktest.NewFaulty(lie)
	j, _, err := open(Options{FS: f, Dir: "/journal", Config: small()}, c.faults)
	if err != nil {
		c.fail("open: %v", err)
		return nil
	}
	c.mu.Lock()
	c.last, c.acked = j.Last(), j.Last()
	c.pinned = 0
	_ = j.Scan(0, func(e *pipeline.Entry) error {
		if string(e.Payload) == pin {
			c.pinned = e.Pos
		}
		return nil
	})
	c.mu.Unlock()
	j.OnDurable(func(pos pipeline.Position, err error) {
		if err == nil {
			c.mu.Lock()
			c.acked = max(c.acked, pos)
			c.mu.Unlock()
		}
	})
	j.SetCarry(func(before pipeline.Position, add func(*pipeline.Entry) error) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pinned == 0 || c.pinned >= before {
			return nil
		}
		e := &pipeline.Entry{Kind: pipeline.EntryCarry, Session: "plant", Payload: []byte(pin)}
		pos := j.Last() + 1
		err := add(e)
		if err == nil {
			old := c.pinned
			c.appended(pos, nil)(e)
			c.pinned = min(old, pos) // the old one counts until the carried one is durable
		}
		return err
	})
	for range steps {
		c.append(j, 1+c.rng.IntN(6))
		if c.rng.IntN(3) > 0 {
			_ = j.Sync(context.Background())
		}
		if c.rng.IntN(8) == 0 && j.Durable() > 20 {
			hold := j.Durable() - pipeline.Position(c.rng.Uint64N(20))
			c.mu.Lock()
			c.trim = max(c.trim, hold+1)
			c.mu.Unlock()
			j.Retain("pipeline", hold)
			_ = j.Trim(context.Background())
			_ = j.Sync(context.Background())
		}
	}
	kill := c.rng.IntN(2) == 0
	if kill {
		f.KillAtSync(1 + c.rng.IntN(2))
		for range 3 {
			c.append(j, 1+c.rng.IntN(4))
			_ = j.Sync(context.Background())
		}
	}
	f.Kill()
	_ = j.Close()
	m.OnOp(nil)
	if kill {
		return m
	}
	var images []*disktest.Mem
	(&disktest.Crasher{Seed: c.rng.Uint64()}).Images(m, 0, func(img *disktest.Mem) { images = append(images, img) })
	return images[c.rng.IntN(len(images))]
}

func (c *crashRun) run(states int) {
	for round := 0; c.crasher.Distinct() < states && round < 200; round++ {
		c.entries, c.last, c.acked, c.trim, c.pinned = map[pipeline.Position]*pipeline.Entry{}, 0, 0, 0, 0
		m := disktest.NewMem()
		for range 6 {
			if m = c.life(m, 12); m == nil {
				break
			}
		}
		if len(c.failures) > 0 {
			return
		}
	}
}

func TestCrashStates(t *testing.T) {
	states := 5000
	if testing.Short() {
		states = 2000
	}
	const seed = 1
	c := &crashRun{crasher: disktest.Crasher{Seed: seed, PerCall: 10}, rng: rand.New(rand.NewPCG(seed, 3))}
	c.run(states)
	t.Logf("seed %d: %d distinct crash states, %d failures", seed, c.crasher.Distinct(), len(c.failures))
	for _, f := range c.failures[:min(len(c.failures), 5)] {
		t.Error(f)
	}
	if c.crasher.Distinct() < 2000 {
		t.Errorf("only %d states", c.crasher.Distinct())
	}
}

// TestPlantedFaultsAreFound shows that the crash states would find each mistake.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]func(*crashRun){
		"no fdatasync":            func(c *crashRun) { c.lie.files = true },
		"directory not synced":    func(c *crashRun) { c.lie.dirs = true },
		"acknowledged when taken": func(c *crashRun) { c.ackEarly = true },
		"nothing carried":         func(c *crashRun) { c.faults.carrySkipped = true },
		"carried and not synced":  func(c *crashRun) { c.faults.carryNotSynced = true },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			c := &crashRun{crasher: disktest.Crasher{Seed: 1, PerCall: 10}, rng: rand.New(rand.NewPCG(1, 3))}
			plant(c)
			c.run(20000)
			if len(c.failures) == 0 {
				t.Fatalf("not found in %d states", c.crasher.Distinct())
			}
			t.Logf("found after %d states: %.200s", c.crasher.Distinct(), c.failures[0])
		})
	}
}
