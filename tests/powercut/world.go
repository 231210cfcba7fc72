//go:build !arm && !386

package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// binary is the agent under test.
var binary string

// world is a gateway on a disk that can lose its power, and what is outside of it.
type world struct {
	t      *testing.T
	v      variant
	dir    string
	random *rand.Rand
	shelf  *shelf

	broker    *rig.Mosquitto
	tap       *tap
	far       *far
	publisher *rig.Publisher
	published atomic.Int64 // messages, numbered from 0
	allowed   atomic.Int64 // of them
	stop      chan struct{}
	feeding   sync.WaitGroup

	host  *host
	agent *rig.Child

	saving sync.WaitGroup
	mu     sync.Mutex
	saved  []string // savepoints that were said to be there
	tries  int
}

// newWorld formats a disk and starts everything; it ends with the test.
func newWorld(t *testing.T, v variant, seed uint64) *world {
	dir := newDir(t)
	w := &world{t: t, v: v, dir: dir, random: rand.New(rand.NewPCG(seed, 7)), stop: make(chan struct{})}
	for _, name := range []string{"shelf", "broker"} {
		w.must(os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	img, err := format(dir)
	w.must(err)
	w.shelf, err = newShelf(filepath.Join(dir, "shelf"))
	w.must(err)
	t.Cleanup(func() { w.note(w.shelf.close()) })
	w.broker, err = rig.StartMosquitto(filepath.Join(dir, "broker"), "")
	w.must(err)
	t.Cleanup(w.broker.Kill)
	w.tap, err = newTap(w.broker.Addr)
	w.must(err)
	t.Cleanup(w.tap.close)
	w.far, err = newFar(filepath.Join(dir, "receiver.db"), v.slowness)
	w.must(err)
	t.Cleanup(func() { w.note(w.far.close()) })
	t.Cleanup(func() { w.down() })
	w.up(img)
	w.ready()
	w.publisher = rig.NewPublisher(rig.PublisherConfig{Addr: w.broker.Addr, ClientID: "powercut-publisher", QoS: byte(v.qos), Window: 100})
	t.Cleanup(func() { w.publisher.Close(); w.feeding.Wait() })
	w.feeding.Go(w.feed)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.dump()
		w.t.Fatal(err)
	}
}

func (w *world) note(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) dump() {
	if b, err := os.ReadFile(w.log()); err == nil {
		w.t.Logf("agent:\n%s", b[max(0, len(b)-6000):])
	}
}

func (w *world) log() string { return filepath.Join(w.dir, "agent.log") }

// up gives power to a disk that has the content of img, mounts it and starts the agent.
func (w *world) up(img *volatiledisk.Image) {
	w.t.Helper()
	h, err := mount(w.shelf, volatiledisk.FromImage(img), w.v.flushTakes, w.dir, w.v.mount)
	w.must(err)
	w.host = h
	w.agent, err = start(h, w.log(), fill(h.state(), w.tap.addr(), w.far.addr(), w.v.qos), w.v.env)
	w.must(err)
}

// down ends the agent, if it runs, and unmounts.
func (w *world) down() {
	if w.agent != nil {
		w.agent.Kill()
	}
	w.saving.Wait()
	if w.host != nil {
		w.note(w.host.close())
	}
}

func (h *host) state() string  { return filepath.Join(h.dir, "state") }
func (h *host) socket() string { return filepath.Join(h.state(), "weir.sock") }
func (h *host) config() string { return h.dir + ".yaml" }

// start starts the agent on a host.
func start(h *host, log, config string, env []string) (*rig.Child, error) {
	if err := os.WriteFile(h.config(), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write the config: %w", err)
	}
	return rig.StartChild(log, env, binary, "run", "-c", h.config())
}

// ready waits for the first subscription: before it the broker keeps nothing for the agent.
func (w *world) ready() {
	w.t.Helper()
	_, err := rig.AwaitStatus(w.t.Context(), w.host.socket(), w.agent, rig.Patience, "the session is there", func(s *api.Status) bool {
		return len(s.Sessions) == 1 && s.Sessions[0].State == "ready"
	})
	w.must(err)
}

// behindMost bounds what the broker has to keep for an agent that is slow.
const behindMost = 1500

// feed publishes at the rate until it is stopped; no more than is allowed, so that a slow machine has no more to look at than a fast one.
func (w *world) feed() {
	pause := time.Second / time.Duration(w.v.rate)
	next := time.Now()
	for n := 0; ; n++ {
		for next = next.Add(pause); ; {
			wait := time.Until(next)
			if n >= int(w.allowed.Load()) || n-w.ackedCount() > behindMost {
				wait = time.Millisecond
				next = time.Now()
			}
			select {
			case <-w.stop:
				return
			default:
			}
			if wait <= 0 {
				break
			}
			time.Sleep(wait)
		}
		if err := w.publisher.Publish(w.t.Context(), topicOf(n), false, payload(n)); err != nil {
			return // the test is over
		}
		w.published.Store(int64(n) + 1)
	}
}

func (w *world) ackedCount() int {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	return len(w.tap.acked)
}

// save makes a savepoint while the world goes on; it counts from when the agent says that it is there.
func (w *world) save() {
	w.saving.Wait()
	w.tries++
	name, client := fmt.Sprintf("sp%03d", w.tries), api.Dial(w.host.socket())
	w.saving.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), rig.Patience)
		defer cancel()
		list, err := client.CreateSavepoint(ctx, saved, api.SavepointOptions{Pipeline: saved, Name: name}, false)
		if err != nil {
			return // the power was cut meanwhile
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range list {
			w.saved = append(w.saved, filepath.Base(s.File))
		}
	})
}

// idle is how long a request is waited for: an idle disk is cut as well.
const idle = 400 * time.Millisecond

// at does something at a random request to the disk, which waits for it: one of the next, or one of the next flushes, when most is unflushed.
func (w *world) at(do func()) {
	plug, flushes, n := w.host.plug, w.random.IntN(2) == 0, 1+w.random.Int64N(60)
	if flushes {
		n = 1 + n/8
	}
	t := plug.catch(n, flushes)
	defer plug.release(t)
	select {
	case <-t.caught:
	case <-time.After(idle):
	}
	do()
}

// drawCut draws how the power is cut.
func (w *world) drawCut() volatiledisk.Cut {
	modes := []volatiledisk.Mode{volatiledisk.Drop, volatiledisk.Mix, volatiledisk.Mix, volatiledisk.Mix, volatiledisk.Tear, volatiledisk.Keep}
	return volatiledisk.Cut{Mode: modes[w.random.IntN(len(modes))], Seed: w.random.Uint64()}
}

// cut is a power cut of the gateway: what is outside goes on, and the agent starts again on what is left. Now and then there is another one while it starts.
func (w *world) cut() (problems []string) {
	again := w.random.IntN(3) == 0
	problems = w.strike()
	if again {
		problems = append(problems, w.strike()...)
	}
	return problems
}

func (w *world) strike() (problems []string) {
	c := w.drawCut()
	var lost int64
	var img *volatiledisk.Image
	w.at(func() {
		lost = w.host.plug.disk.Counters().Unflushed
		img = w.host.plug.disk.Cut(c)
		w.host.die(w.agent)
	})
	w.agent.Kill() // waits
	w.saving.Wait()
	w.must(w.host.close())
	w.v.tally.cut(lost)
	if problems = inspect(w, img, w.claims()); len(problems) > 0 {
		problems = append([]string{fmt.Sprintf("cut %v of %d requests", c, lost)}, problems...)
	}
	w.up(img)
	return problems
}

// claims without a status: the savepoints alone.
func (w *world) claims() claims {
	w.mu.Lock()
	defer w.mu.Unlock()
	return claims{savepoints: append([]string(nil), w.saved...)}
}

// newDir is a directory for a run, in memory where that can be: what is outside of the disk needs no disk, and its syncs cost nothing there.
func newDir(t *testing.T) string {
	dir, err := os.MkdirTemp(baseDir(), fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

// baseDir is in memory where that has room; a container's may be small.
var baseDir = sync.OnceValue(func() string {
	const memory, least = "/dev/shm", 512 << 20
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) >= least {
		return memory
	}
	return os.TempDir()
})
