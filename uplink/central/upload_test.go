package central

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// story uploads a number of checkpoints; small ratio, so that there are rebases, and a store whose clock goes on by days, so that there is something to collect. It ends early
// when the process dies.
func (w *world) story(checkpoints int) error {
	for range checkpoints {
		w.checkpoint(20)
		if _, err := w.cut(); err != nil {
			return err
		}
		if err := w.drive(); err != nil {
			return err
		}
		w.bucket.Advance(graceMs + 1)
	}
	return nil
}

func smallRatio(c *Config) { c.RebaseRatio = 1 }

func TestUploadAndFetch(t *testing.T) {
	w := newWorld(t, 1)
	w.config = smallRatio
	w.start()
	for n := range 40 {
		if err := w.story(1); err != nil {
			t.Fatal(err)
		}
		if id, err := w.check(w.bucket, w.id); err != nil || id != w.id {
			t.Fatalf("upload %d: %d, %v", n, id, err)
		}
	}
	if w.rebases < 3 || w.up.Collected() == 0 {
		t.Fatalf("%d bases, %d collected: the test shows nothing", w.rebases, w.up.Collected())
	}
	if len(w.spool.files) != 1 {
		t.Errorf("the device keeps %v", w.spool.files)
	}
	t.Logf("%d bases, %d collected, %d objects left", w.rebases, w.up.Collected(), len(w.bucket.Names("")))
}

// runKilled runs the story with a process that dies, checks what a replacement would find, and goes on with a new process to the end.
func runKilled(t *testing.T, plant planted, kill func(w *world), dead func(w *world) bool) (died bool, err error) {
	w := newWorld(t, 7)
	w.config, w.plant = smallRatio, plant
	w.start()
	kill(w)
	serr := w.story(6)
	died = dead(w)
	// It may have died in the last collection, of which nobody hears.
	if serr != nil && !errors.Is(serr, buckettest.ErrKilled) && !errors.Is(serr, errDied) {
		return died, serr
	}
	if least := w.confirmed(); least > 0 || len(w.bucket.Names("gw~2F1/head/")) > 0 {
		if _, err := w.check(w.bucket.Clone(), least); err != nil {
			return died, err
		}
	}
	w.bucket.Revive()
	w.spool.killAt = 0
	w.start()
	w.bucket.Advance(graceMs + 1)
	if err := w.story(6); err != nil {
		return died, err
	}
	_, err = w.check(w.bucket, w.id)
	return died, err
}

// TestKilledAtEveryRequest: before and after each request of uploads and collections.
func TestKilledAtEveryRequest(t *testing.T) {
	n := 1
	for ; ; n++ {
		died := false
		for _, carriedOut := range []bool{false, true} {
			var err error
			died, err = runKilled(t, planted{}, func(w *world) { w.bucket.Kill(n, carriedOut) }, func(w *world) bool { return w.bucket.Requests() >= n })
			if err != nil {
				t.Fatalf("killed at request %d, carried out %v: %v", n, carriedOut, err)
			}
		}
		if !died {
			break
		}
	}
	t.Logf("%d requests", n-1)
}

// TestKilledAtEveryWrite: before and after each write on the device.
func TestKilledAtEveryWrite(t *testing.T) {
	n := 1
	for ; ; n++ {
		died := false
		for _, after := range []bool{false, true} {
			var err error
			died, err = runKilled(t, planted{}, func(w *world) { w.spool.killAt, w.spool.after = n, after }, func(w *world) bool { return w.spool.writes >= n })
			if err != nil {
				t.Fatalf("killed at write %d, carried out %v: %v", n, after, err)
			}
		}
		if !died {
			break
		}
	}
	t.Logf("%d writes", n-1)
}

// manyFrames uploads so many deltas that indexes are chained, and fetches through them in several passes.
func manyFrames(t *testing.T, plant planted) error {
	w := newWorld(t, 3)
	w.plant, w.config = plant, func(c *Config) { c.RebaseRatio = 1000 }
	w.start()
	for range 70 {
		if err := w.story(1); err != nil {
			return err
		}
	}
	if w.rebases != 1 {
		return errors.New("a new base was wanted")
	}
	_, err := w.check(w.bucket.Clone(), w.id)
	return err
}

func TestManyFrames(t *testing.T) {
	if err := manyFrames(t, planted{}); err != nil {
		t.Fatal(err)
	}
}

// faulty draws faults of links and stores.
func faulty(w *world, rnd *rand.Rand, percent int, counts map[buckettest.Fault]int) {
	w.bucket.Fault = func(r buckettest.Request) buckettest.Fault {
		if rnd.IntN(100) >= percent {
			return buckettest.None
		}
		f := []buckettest.Fault{buckettest.Lost, buckettest.AnswerLost, buckettest.Late, buckettest.Torn, buckettest.TornLost}[rnd.IntN(5)]
		if (f == buckettest.Torn || f == buckettest.TornLost) && r.Verb != "put" { // a store tears what it is given, not what it compares
			f = buckettest.Lost
		}
		counts[f]++
		return f
	}
}

// runFaulty uploads over drawn faults and gives the first thing that is not as it should be.
func runFaulty(t *testing.T, seed uint64, plant planted, counts map[buckettest.Fault]int) error {
	w := newWorld(t, seed)
	w.config, w.plant = smallRatio, plant
	w.start()
	rnd := rand.New(rand.NewPCG(seed, 2))
	faulty(w, rnd, 20, counts)
	for range 12 {
		if err := w.story(1); err != nil {
			return err
		}
		if rnd.IntN(3) == 0 {
			w.bucket.Land()
		}
		if _, err := w.check(w.bucket.Clone(), w.id); err != nil {
			return err
		}
		if rnd.IntN(4) == 0 {
			w.start()
		}
	}
	w.bucket.Land()
	_, err := w.check(w.bucket.Clone(), w.id)
	return err
}

func TestEveryFaultOfALink(t *testing.T) {
	base := rand.Uint64()
	t.Logf("seed %d", base)
	counts := map[buckettest.Fault]int{}
	for i := range uint64(20) {
		if err := runFaulty(t, base+i, planted{}, counts); err != nil {
			t.Fatalf("seed %d: %v", base+i, err)
		}
	}
	t.Logf("faults %v", counts)
}

// TestPlantedFaultsAreFound: each mistake is found by one of the tests above.
func TestPlantedFaultsAreFound(t *testing.T) {
	killed := func(plant planted) error {
		for n := 1; ; n++ {
			for _, carriedOut := range []bool{false, true} {
				died, err := runKilled(t, plant, func(w *world) { w.bucket.Kill(n, carriedOut) }, func(w *world) bool { return w.bucket.Requests() >= n })
				if err != nil {
					return err
				}
				if !died {
					return nil
				}
			}
		}
	}
	drawn := func(plant planted) error {
		for seed := range uint64(20) {
			if err := runFaulty(t, seed, plant, map[buckettest.Fault]int{}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name  string
		plant planted
		run   func(planted) error
	}{
		{"head before the objects", planted{headFirst: true}, killed},
		{"what was put is not read back", planted{blind: true}, drawn},
		{"collection without reading what there is", planted{collectDeaf: true}, func(p planted) error { return manyFrames(t, p) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.run(c.plant)
			if err == nil {
				t.Fatal("the planted fault was not found")
			}
			t.Log(err)
		})
	}
}
