package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// idle looks for half an hour at a store in which nothing changes.
func idle(t *testing.T, f faults) error {
	w := newWorld(t)
	w.faults = f
	w.rollout(rolloutOf(1, "r1", strings.Repeat("1", 64)))
	w.acts.release = strings.Repeat("1", 64)
	w.commands(1, command(1, document.DoStop))
	w.start()
	defer func() { w.stop() }()
	time.Sleep(4 * time.Minute)
	before, saves := w.bucket.Requests(), w.ch.Status().LedgerSave
	time.Sleep(30 * time.Minute)
	s := w.ch.Status()
	if n := w.bucket.Requests() - before; n != 6*4 {
		return fmt.Errorf("%d requests in six looks, want 24", n)
	}
	if s.LedgerSave != saves {
		return fmt.Errorf("the ledger was written %d times with nothing to write", s.LedgerSave-saves)
	}
	if s.Polls != 7 || s.Error != "" {
		return fmt.Errorf("%+v", s)
	}
	return nil
}

func TestAnIdleLookIsFourRequestsAndNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := idle(t, faults{}); err != nil {
			t.Error(err)
		}
	})
}

// attack puts one document in the place of the gateway's commands, behind serial 5 with one command done, and tells what it led to.
func attack(t *testing.T, f faults, name string, body func(w *world) []byte) (reason string, done []string, lines int) {
	w := newWorld(t)
	w.faults = f
	w.commands(5, command(5, document.DoStop))
	w.start()
	defer func() { w.stop() }()
	time.Sleep(time.Minute)
	if got := w.acts.did(); len(got) != 1 {
		t.Fatalf("before the attack: %v", got)
	}
	w.put(name, body(w))
	time.Sleep(20 * time.Minute)
	w.put(name, body(w)) // once more: another version, the same bytes
	time.Sleep(20 * time.Minute)
	s := w.ch.Status()
	return strings.Join(slices.Sorted(maps.Keys(s.Refused)), " "), w.acts.did()[1:], w.log.lines("fleet document refused")
}

type attackCase struct {
	name   string
	at     string
	body   func(w *world) []byte
	reason string
}

func attacks() []attackCase {
	mine := depot.DeviceCommands(gatewayName)
	good := func(w *world) []byte {
		return sealed(w.t, signed.TypeCommands, encoded(w.t, commandsOf(6, command(6, document.DoStart))), "deploy")
	}
	change := func(f func(c *document.Commands)) func(*world) []byte {
		return func(w *world) []byte {
			c := commandsOf(6, command(6, document.DoStart))
			f(c)
			return sealed(w.t, signed.TypeCommands, encoded(w.t, c), "deploy")
		}
	}
	return []attackCase{
		{"an old document again", mine, func(w *world) []byte {
			return sealed(w.t, signed.TypeCommands, encoded(w.t, commandsOf(4, command(4, document.DoStart))), "deploy")
		}, ReasonReplay},
		{"another document of the same serial", mine, change(func(c *document.Commands) { c.Serial, c.List = 5, []document.Command{command(5, document.DoStop)} }), ReasonConflict},
		{"another command of the same serial", mine, change(func(c *document.Commands) {
			c.List = []document.Command{command(5, document.DoStart), command(6, document.DoStart)}
		}), ReasonConflict},
		{"cut off", mine, func(w *world) []byte { b := good(w); return b[:len(b)/2] }, ReasonForm},
		{"a byte changed", mine, func(w *world) []byte {
			return []byte(strings.Replace(string(good(w)), `"sig":"`, `"sig":"A`, 1))
		}, ReasonForm},
		{"signed by release", mine, func(w *world) []byte {
			return sealed(w.t, signed.TypeCommands, encoded(w.t, commandsOf(6, command(6, document.DoStart))), "release")
		}, ReasonThreshold},
		{"signed by a stranger", mine, func(w *world) []byte {
			return sealed(w.t, signed.TypeCommands, encoded(w.t, commandsOf(6, command(6, document.DoStart))), "mallory")
		}, ReasonThreshold},
		{"for another gateway", mine, change(func(c *document.Commands) { c.Scope = "device/gw-2" }), ReasonOther},
		{"for a channel", mine, change(func(c *document.Commands) { c.Scope = "commands/" + channelName }), ReasonOther},
		{"of another fleet", mine, change(func(c *document.Commands) { c.Fleet = "other" }), ReasonOther},
		{"a roll-out in its place", mine, func(w *world) []byte {
			return sealed(w.t, signed.TypeRollout, encoded(w.t, rolloutOf(6, "r", strings.Repeat("1", 64))), "deploy")
		}, ReasonType},
		{"too large", mine, func(w *world) []byte { return append(good(w), make([]byte, signed.BytesMax)...) }, ReasonSize},
		{"of a later format", mine, func(w *world) []byte { return []byte(strings.Replace(string(good(w)), `"weir":1`, `"weir":2`, 1)) }, ReasonVersion},
		{"a root that root has not signed", depot.Root(2), func(w *world) []byte {
			e, err := signed.Parse(rootOf(w.t, 2, 0, 1, "deploy"))
			if err != nil {
				w.t.Fatal(err)
			}
			return sealed(w.t, signed.TypeRoot, e.Payload, "deploy")
		}, ReasonThreshold},
		{"a root two further", depot.Root(2), func(w *world) []byte { return rootOf(w.t, 3, 0, 1, "deploy") }, ReasonRoot},
	}
}

// TestWhatIsRefused: nothing of it is done, it is counted, and told once.
func TestWhatIsRefused(t *testing.T) {
	for _, a := range attacks() {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reason, done, lines := attack(t, faults{}, a.at, a.body)
				if reason != a.reason || len(done) > 0 || lines != 1 {
					t.Errorf("reason %q, want %q; done %v; told %d times, want once", reason, a.reason, done, lines)
				}
			})
		})
	}
}

// TestAReleaseThatIsNone: what release has not signed is not installed, whoever asks.
func TestAReleaseThatIsNone(t *testing.T) {
	for _, name := range []string{"deploy", "mallory"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			payload := encoded(t, releaseOf("2"))
			w.put(depot.Release(digestOf(payload)), sealed(t, signed.TypeRelease, payload, name))
			w.rollout(rolloutOf(1, "r1", digestOf(payload)))
			w.run(time.Hour)
			if len(w.acts.asked) > 0 || w.ch.ledger.Rollout == nil || w.ch.ledger.Rollout.Outcome != outcomeGated || !strings.Contains(w.ch.ledger.Rollout.Why, "signature") {
				t.Errorf("signed by %s: asked %v, %+v", name, w.acts.asked, w.ch.ledger.Rollout)
			}
			if n, lines := w.ch.Status().Refused[ReasonThreshold], w.log.lines("fleet document refused"); n != 1 || lines != 1 {
				t.Errorf("signed by %s: counted %d times, told %d times, want 1 and 1: %v", name, n, lines, w.ch.Status().Refused)
			}
		})
	}
}

// TestAReleaseThatWasNone: what somebody has shown under a release's name for a while keeps no gateway from it for good; and what he shows instead, again and again, costs no flash.
func TestAReleaseThatWasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		payload := encoded(t, releaseOf("2"))
		name := depot.Release(digestOf(payload))
		w.put(name, []byte("rubbish"))
		w.rollout(rolloutOf(1, "r1", digestOf(payload)))
		w.start()
		time.Sleep(time.Hour)
		saves := w.ch.Status().LedgerSave
		for n := range 5 {
			w.put(name, fmt.Appendf(nil, "other rubbish, %d", n))
			time.Sleep(10 * time.Minute)
		}
		if h := w.ch.ledger.Rollout; h == nil || h.Outcome != outcomeGated || w.ch.Status().LedgerSave != saves {
			t.Errorf("%+v, written %d times, %d before", h, w.ch.Status().LedgerSave, saves)
		}
		w.stop()
		w.put(name, sealed(t, signed.TypeRelease, payload, "release"))
		w.rollout(rolloutOf(2, "r1", digestOf(payload))) // the next wave, say
		w.run(time.Hour)
		if h := w.ch.ledger.Rollout; len(w.acts.asked) != 1 || !h.Asked || h.Outcome != "" || h.Unread {
			t.Errorf("asked %v, %+v", w.acts.asked, h)
		}
	})
}

// TestKeysThatWereReplaced: the serial of a thief is forgotten with his key, and what he signed before counts no more.
func TestKeysThatWereReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(1<<53-1, command(1, document.DoStop))
		w.start()
		time.Sleep(time.Minute)
		w.put(depot.Root(2), rootOf(t, 2, 1, 2, "deploy2"))
		w.put(depot.DeviceCommands(gatewayName), sealed(t, signed.TypeCommands, encoded(t, commandsOf(1, command(1, document.DoStart))), "deploy2"))
		time.Sleep(10 * time.Minute)
		w.stop()
		if got := w.acts.did(); len(got) != 2 || !strings.Contains(got[1], "start") {
			t.Fatalf("done: %v", got)
		}
		w.commands(1<<53-1, command(1<<53-1, document.DoStop))
		w.run(10 * time.Minute)
		if got := w.acts.did(); len(got) != 2 {
			t.Errorf("the thief's command was done behind the rotation: %v", got)
		}
		if w.ch.trust.Version() != 2 {
			t.Errorf("root %d behind a start, want 2", w.ch.trust.Version())
		}
	})
}

// TestReadBeforeTheKeyWasReplaced: what was read and not begun is not begun any more, in the same process. What was begun ends.
func TestReadBeforeTheKeyWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acts.block, w.acts.refuse = make(chan struct{}), ErrLater
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.rollout(rolloutOf(1, "r1", w.release("2")))
		w.start()
		time.Sleep(10 * time.Minute)
		w.put(depot.Root(2), rootOf(t, 2, 0, 2, "deploy2"))
		time.Sleep(10 * time.Minute)
		w.acts.mu.Lock()
		w.acts.refuse = nil
		w.acts.mu.Unlock()
		close(w.acts.block)
		time.Sleep(time.Hour)
		w.stop()
		if got := fmt.Sprint(w.acts.did(), w.acts.asked); got != "[device/gw-1 stop 1] []" {
			t.Errorf("done and asked: %s", got)
		}
		if s := w.ch.Status(); s.Refused["threshold"] != 2 || s.Rollout != "" {
			t.Errorf("%+v", s)
		}
		if r := w.result(1); r == nil || r.Result != document.ResultDone {
			t.Errorf("what was begun: %+v", r)
		}
	})
}

// TestFrozenStore: a store that gives old documents for ever delays, and it shows.
func TestFrozenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(1, command(1, document.DoStop))
		old := w.bucket.Clone()
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.run(time.Minute)
		w.bucket = old
		w.run(time.Hour)
		s := w.ch.Status()
		if len(w.acts.did()) != 2 || s.Refused[ReasonReplay] != 1 || s.CreatedMs != created+2 || s.Serials["device/"+gatewayName] != 2 {
			t.Errorf("done %v, %+v", w.acts.did(), s)
		}
	})
}

// TestOfflineAndBack: nothing is lost, nothing is done twice, and a store that is away is asked ever more rarely.
func TestOfflineAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var away atomic.Bool
		var tries atomic.Int64
		w.bucket.Fault = func(r buckettest.Request) buckettest.Fault {
			if away.Load() {
				tries.Add(1)
				return buckettest.Lost
			}
			return buckettest.None
		}
		w.commands(1, command(1, document.DoStop))
		w.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.put(depot.DeviceCommands(gatewayName), sealed(t, signed.TypeCommands, encoded(t, commandsOf(3, command(1, document.DoStop), command(2, document.DoStart), command(3, document.DoStop))), "deploy"))
		away.Store(true)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		away.Store(false)
		if n := tries.Load(); n > 600 {
			t.Errorf("%d requests to a store that was away for a day", n)
		}
		time.Sleep(30 * time.Minute)
		w.stop()
		if got := fmt.Sprint(w.acts.did()); got != "[device/gw-1 stop 1 device/gw-1 start 2 device/gw-1 stop 3]" {
			t.Errorf("done %s", got)
		}
		for i := uint64(1); i <= 3; i++ {
			if r := w.result(i); r == nil || r.Result != document.ResultDone {
				t.Errorf("result of %d: %+v", i, r)
			}
		}
		if n := w.log.lines("fleet's store was not read; it is tried again"); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
	})
}

// rung rings 10,000 times in a minute, and gives how often it was looked.
func rung(t *testing.T, f faults) uint64 {
	w := newWorld(t)
	w.faults = f
	w.bell = &fakeBell{rings: make(chan []byte)}
	w.start()
	defer func() { w.stop() }()
	time.Sleep(11 * time.Second)
	before := w.ch.Status().Polls
	for i := range 10_000 {
		p := fmt.Appendf(nil, "%d", i+1)
		if i%7 == 0 {
			p = []byte(strings.Repeat("x", 3000))
		}
		w.bell.rings <- p
		time.Sleep(6 * time.Millisecond)
	}
	time.Sleep(30 * time.Second)
	s := w.ch.Status()
	if s.Rings != 10_000 || s.BadRings != 1429 || w.log.lines("fleet's doorbell is rung all the time; it is looked no more often for that") != 1 {
		t.Errorf("%+v", s)
	}
	return s.Polls - before
}

func TestAFloodOfRingsIsAFewLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n := rung(t, faults{}); n < 4 || n > 10 {
			t.Errorf("%d looks in 90 s, want 4 to 10", n)
		}
	})
}

// TestARingLeadsToALook, soon; the same number, behind a new connection, to none.
func TestARingLeadsToALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.bell = &fakeBell{rings: make(chan []byte)}
		w.start()
		defer func() { w.stop() }()
		time.Sleep(20 * time.Minute)
		if n := w.ch.Status().Polls; n != 1 || !w.ch.Status().Heard {
			t.Errorf("%d looks in 20 minutes with a doorbell, want 1", n)
		}
		w.commands(1, command(1, document.DoStop))
		w.bell.rings <- []byte("1")
		time.Sleep(20 * time.Second)
		if len(w.acts.did()) != 1 {
			t.Error("nobody looked behind the ring")
		}
		w.bell.rings <- []byte("1")
		time.Sleep(20 * time.Minute)
		if n := w.ch.Status().Polls; n != 2 {
			t.Errorf("%d looks, want 2", n)
		}
	})
}

func TestAFencedDeviceDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acts.fenced = errors.New("another device has its place")
		w.commands(1, command(1, document.DoStop))
		before := w.bucket.Requests()
		w.run(time.Hour)
		if n := w.bucket.Requests() - before; n != 0 || len(w.acts.did()) > 0 {
			t.Errorf("%d requests, done %v", n, w.acts.did())
		}
	})
}

func TestTheClockHearsOfDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(7, command(7, document.DoStop))
		w.run(time.Minute)
		if w.clock.told != created+7 {
			t.Errorf("told %d", w.clock.told)
		}
		w.clock.told = 0
		w.bucket = &buckettest.Memory{}
		if w.run(time.Minute); w.clock.told != created+7 {
			t.Errorf("behind a start: told %d", w.clock.told)
		}
		if _, _, err := w.bucket.Get(context.Background(), depot.State(gatewayName)); err != nil {
			t.Error(err)
		}
	})
}
