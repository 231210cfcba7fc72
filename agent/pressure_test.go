package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/tests/rig"
)

// pressed is an agent with a broker and a receiver, on a disk that fails.
type pressed struct {
	*bench
	broker  *rig.Broker
	strain  *disktest.Strain
	sent    int
	said    *said
	ended   []error // how agents ended by themselves
	refused []error // why agents did not start
}

// said keeps what an agent logs.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.text.Write(p) }

func (s *said) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.text.String() }

var _ io.Writer = (*said)(nil)

// press makes disk.OS a disk that fails on demand; it is put back when the test and its parallel parts end.
func press(t *testing.T) *disktest.Pressed {
	t.Helper()
	before := disk.OS
	p := disktest.Press(before)
	disk.OS = p
	t.Cleanup(func() { disk.OS = before })
	return p
}

func newPressed(t *testing.T, d *disktest.Pressed, store string) *pressed {
	t.Helper()
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	text := strings.Replace(pipelineNamed("p", store), "restart: {strategy: fixed-delay, attempts: 3, delay: 10ms}",
		"restart: {strategy: exponential-delay, initial_backoff: 50ms, max_backoff: 200ms}", 1)
	if store == config.StorePebble { // which goes with that backend alone
		text = strings.Replace(text, "    checkpoint:", "    state: {backend: pebble}\n    checkpoint:", 1)
	}
	p := &pressed{bench: newBench(t, text), broker: broker, said: &said{}}
	p.text = strings.Replace(p.text, "segment: 256KiB", "segment: 256KiB, compress: false", 1)
	p.text = strings.Replace(p.text, "sources:", fmt.Sprintf("brokers: {none: {url: \"tcp://%s\", client_id: pressed}}\nsources:", broker.Addr()), 1)
	p.options.Logger = slog.New(slog.NewTextHandler(p.said, nil))
	p.strain = d.Below(p.dir + "/state")
	t.Cleanup(func() {
		if t.Failed() {
			text := p.said.String()
			t.Logf("the agent's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return p
}

// pad makes a message large enough for the journal to take several segments in a life.
var pad = strings.Repeat("x", 6<<10)

// publish sends n messages to the broker; each seventh is none that the pipeline can read.
func (p *pressed) publish(n int) {
	for range n {
		p.sent++
		p.broker.Publish("t/k", 1, false, fmt.Appendf(nil, `{"id":%d,"ts":%d,"pad":"%s"}`, p.sent, int64(1767225600000)+int64(p.sent), pad))
		if p.sent%7 == 0 {
			p.broker.Publish("t/k", 1, false, []byte("not one"))
		}
	}
}

// up starts an agent, again and again while it does not start: as a service manager does.
func (p *pressed) up() error {
	a, err := New(p.parse(), p.options)
	if err != nil {
		p.refused = append(p.refused, err)
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.run(a, ctx, stop)
	return nil
}

// look notes when the agent has ended by itself.
func (p *pressed) look() {
	select {
	case err := <-p.done:
		p.ended = append(p.ended, err)
		p.agent = nil
	default:
	}
}

// until runs the agent, started again when it ends, until it is settled with all that was sent, or the time is over.
func (p *pressed) until(over func() bool) bool {
	for !over() {
		if p.agent == nil && p.up() != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if p.look(); p.agent == nil {
			continue
		}
		s, err := api.Dial(p.agent.config.API.Socket).Status(context.Background())
		if err != nil { // it just ended, or has just begun
			time.Sleep(5 * time.Millisecond)
			continue
		}
		session := p.broker.Session("pressed")
		if session.Connected && session.Queued+session.InFlight == 0 && delivered(&s) && p.arrived(&s) {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// arrived tells whether the pipeline has taken all that was sent.
func (p *pressed) arrived(s *api.Status) bool {
	sources := s.Pipelines[0].Sources
	return len(sources) > 0 && sources[0].Received == uint64(p.sent+p.sent/7)
}

// delivered tells whether nothing waits in the agent. Unlike settled it asks for no checkpoint of positions that hold no message.
func delivered(s *api.Status) bool {
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		if p.State != "running" || p.Lag > 0 || !p.Balanced || p.Checkpoint.InARow > 0 {
			return false
		}
		for _, k := range p.Sinks {
			if k.Pending > 0 {
				return false
			}
		}
	}
	return true
}

// check is the oracle: each id once, in order, and each window once.
func (p *pressed) check(t *testing.T) {
	t.Helper()
	p.wantIDs("p", [2]int{1, p.sent})
	if windows, _ := p.ids("p", "later"); len(windows) != p.sent/10 {
		t.Errorf("upstream holds %d windows, want %d", len(windows), p.sent/10)
	}
	if m := p.strain.Misused(); len(m) > 0 {
		t.Errorf("files were used on though a sync of them had failed: %q", m)
	}
}

func (p *pressed) down(t *testing.T) {
	t.Helper()
	if p.agent == nil {
		return
	}
	p.stop()
	if err := <-p.done; err != nil {
		p.ended = append(p.ended, err)
	}
	p.done <- nil
}

// pressedPatience bounds a life: only one that is stuck takes so long.
const pressedPatience = patience

// retriesPerSecond bounds what is tried again while a disk fails: of all parts of one agent together.
const retriesPerSecond = 100

// TestPressureAnywhere lets each operation on the disk fail in turn, once or for a while, and asks the far end.
func TestPressureAnywhere(t *testing.T) {
	d := press(t)
	t.Run("life", func(t *testing.T) { // so that disk.OS is put back behind its parallel parts
		for _, store := range pressedStores() {
			for _, pressure := range []disktest.Pressure{disktest.Full, disktest.FailWrite, disktest.FailSync, disktest.ReadOnly, disktest.Aborted} {
				anywhere(t, d, store, pressure)
			}
		}
	})
}

// anywhere lets each operation in turn meet a pressure. Stores differ in the checkpoints alone, so that the others than log take fewer.
func anywhere(t *testing.T, d *disktest.Pressed, store string, pressure disktest.Pressure) {
	ops := 0
	name := store + "-" + strings.ReplaceAll(pressure.Name, " ", "-")
	t.Run(name, func(t *testing.T) {
		p := newPressed(t, d, store)
		p.live(t, pressure, 0, 0)
		ops = len(p.strain.Ops())
		for i, o := range p.strain.Ops() {
			t.Log(i+1, o)
		}
	})
	step := every(ops)
	if store != "log" && step > 1 {
		step = step*3/2 + 1
	}
	for _, times := range []int{1, -1} {
		for k := 1; k <= ops; k += step {
			t.Run(fmt.Sprintf("%s/%d at %d", name, times, k), func(t *testing.T) {
				t.Parallel()
				newPressed(t, d, store).live(t, pressure, k, times)
			})
		}
	}
}

// pressedStores are those of checkpoints that meet it. bbolt opens real files by itself: only a build with the tag weirfault has them fail (make test).
func pressedStores() []string {
	list := []string{"log"}
	if pebblekv.Built {
		list = append(list, config.StorePebble)
	}
	if boltPressed {
		list = append(list, "bbolt")
	}
	return list
}

// TestPlantedFaultUnderPressureIsFound: an agent that does not hear that an outbox takes nothing any more is stuck for ever; one that hears it goes on by itself, exactly.
func TestPlantedFaultUnderPressureIsFound(t *testing.T) {
	d := press(t)
	for _, deaf := range []bool{false, true} {
		p := newPressed(t, d, "log")
		p.lives(t, inTime())
		p.strain = d.Below(filepath.Join(p.dir, "state", "pipelines", p.uuid(t), "outbox"))
		p.options.deaf = deaf
		if err := p.up(); err != nil {
			t.Fatal(err)
		}
		p.await("it runs", func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" })
		p.strain.Fail(disktest.FailSync, 1, 1) // behind the recovery, which ends the attempt by itself
		p.publish(25)
		stuck := 0
		settled := p.until(func() bool {
			if n, _ := p.strain.Failed(); n > 0 && deaf && p.agent.Status().Pipelines[0].Checkpoint.InARow > 0 {
				stuck++ // each is a look, some time behind the one before
			}
			return stuck > 200
		})
		if settled == deaf {
			t.Errorf("deaf: %t, and it settled: %t", deaf, settled)
		}
		p.down(t)
		if !deaf {
			p.check(t)
		}
	}
}

// uuid names the state of the pipeline.
func (p *pressed) uuid(t *testing.T) string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(p.dir, "state", "pipelines"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].Name()
}

// every is the step from one operation to the next that fails; WEIR_PRESSURE=all takes each.
func every(ops int) int {
	if os.Getenv("WEIR_PRESSURE") == "all" {
		return 1
	}
	if n, err := strconv.Atoi(os.Getenv("WEIR_PRESSURE")); err == nil {
		return n
	}
	return max(1, ops/6)
}

// live: a life without trouble, and one in which the disk fails from its k-th operation on.
func (p *pressed) live(t *testing.T, pressure disktest.Pressure, k, times int) {
	deadline := time.Now().Add(pressedPatience)
	late := func() bool { return time.Now().After(deadline) }
	p.lives(t, late)
	p.strain.Fail(pressure, k, times)
	began := time.Now()
	var hurt time.Time // since when it fails
	healed := false
	for range 3 {
		p.publish(25)
		p.until(func() bool {
			n, _ := p.strain.Failed()
			if n > 0 && hurt.IsZero() {
				hurt = time.Now()
			}
			if n > 0 && !healed && time.Since(hurt) > 400*time.Millisecond {
				p.bounded(t, time.Since(hurt))
				p.strain.Heal()
				healed = true
			}
			return late()
		})
	}
	if late() {
		t.Fatalf("not settled %s after the disk was well again: %v", time.Since(began), p.problems())
	}
	p.strain.Heal()
	p.down(t)
	n, by := p.strain.Failed()
	t.Logf("%d operations failed: %v; ended %v; refused %v", n, by, p.ended, p.refused)
	p.check(t)
	p.judge(t, pressure)
}

// lives is a first life, without trouble.
func (p *pressed) lives(t *testing.T, late func() bool) {
	t.Helper()
	if err := p.up(); err != nil {
		t.Fatal(err)
	}
	p.await("session", func(s *api.Status) bool { return s.Sessions[0].State == "ready" })
	p.publish(20)
	if !p.until(late) {
		t.Fatal("no first life")
	}
	p.down(t)
	p.agent = nil
	if len(p.ended)+len(p.refused) > 0 {
		t.Fatalf("ended %v, refused %v", p.ended, p.refused)
	}
}

func (p *pressed) problems() []string {
	if p.agent == nil {
		return []string{"no agent"}
	}
	s, err := api.Dial(p.agent.config.API.Socket).Status(context.Background())
	if err != nil {
		return []string{err.Error()}
	}
	b, err := json.Marshal(s)
	if err != nil {
		return []string{err.Error()}
	}
	return append(s.Problems, fmt.Sprintf("sent %d", p.sent), fmt.Sprintf("%+v", p.broker.Session("pressed")), string(b))
}

// bounded: what fails is tried again, and not as fast as it can be.
func (p *pressed) bounded(t *testing.T, since time.Duration) {
	t.Helper()
	if n, by := p.strain.Failed(); n > 50+int(since.Seconds()*retriesPerSecond) {
		t.Errorf("%d tries in %s: %v", n, since, by)
	}
}

// judge: a disk that is full, or read-only for a while, ends no agent; and what ends one names the file.
func (p *pressed) judge(t *testing.T, pressure disktest.Pressure) {
	t.Helper()
	for _, err := range append(slices.Clone(p.ended), p.refused...) {
		if err == nil || !strings.Contains(err.Error(), p.dir) || !errors.Is(err, pressure.Err) {
			t.Errorf("the agent ended with: %v; want the file and %v", err, pressure.Err)
		}
	}
	if pressure.Err == syscall.ENOSPC || pressure.Name == disktest.ReadOnly.Name {
		if len(p.ended) > 0 {
			t.Errorf("the agent ended: %v", p.ended)
		}
	}
}
