package channel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/document"
)

// replaces has an upgrade fetch pieces that never come, and another roll-out take its place.
func replaces(t *testing.T, f faults) error {
	w := newWorld(t)
	w.faults = f
	w.rollout(rolloutOf(1, "bad", w.release("2")))
	w.start()
	defer func() { w.stop() }()
	time.Sleep(10 * time.Minute)
	w.acts.mu.Lock()
	release := releaseIn(w, "2")
	w.acts.upgrade = &document.Progress{Rollout: "bad", Release: release, State: "fetching", From: "1", To: "2"}
	w.acts.refuse = fmt.Errorf("an upgrade is under way: %w", ErrLater)
	w.acts.mu.Unlock()
	w.rollout(rolloutOf(2, "better", w.release("3")))
	time.Sleep(10 * time.Minute)
	w.acts.mu.Lock()
	if len(w.acts.halted) == 0 || w.acts.halted[0] != "bad: roll-out better has taken its place" {
		w.acts.mu.Unlock()
		return fmt.Errorf("given up %v", w.acts.halted)
	}
	w.acts.upgrade.State, w.acts.upgrade.Outcome, w.acts.refuse = "failed", "halted", nil
	w.acts.mu.Unlock()
	time.Sleep(2 * lookEvery) // not only at the next look, which a doorbell makes rare
	w.acts.mu.Lock()
	defer w.acts.mu.Unlock()
	if got := fmt.Sprint(w.acts.asked); got != "[rollout/stable bad 2 rollout/stable better 3]" {
		return fmt.Errorf("asked %s", got)
	}
	return nil
}

// releaseIn is the name of a release that was published.
func releaseIn(w *world, version string) string { return digestOf(encoded(w.t, releaseOf(version))) }

func TestARollOutTakesThePlaceOfOneUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := replaces(t, faults{}); err != nil {
			t.Error(err)
		}
	})
}

func TestReplacedBy(t *testing.T) {
	r := &document.Rollout{ID: "new", Release: "b"}
	for _, c := range []struct {
		u    *document.Progress
		want bool
	}{
		{nil, false},
		{&document.Progress{}, false},
		{&document.Progress{Rollout: "old", Release: "a", State: "accepted"}, true},
		{&document.Progress{Rollout: "old", Release: "a", State: "fetching"}, true},
		{&document.Progress{Rollout: "new", Release: "a", State: "staged"}, true},
		{&document.Progress{Rollout: "old", Release: "b", State: "fetching"}, false},             // what is wanted comes
		{&document.Progress{Release: "a", State: "fetching", Rollout: ""}, false},                // somebody on the device, or a command, asked
		{&document.Progress{Rollout: "old", Release: "a", State: "failed", Outcome: "x"}, false}, // it is over
		{&document.Progress{Rollout: "old", Release: "a", State: "draining"}, false},             // soon over
		{&document.Progress{Rollout: "old", Release: "a", State: "probation"}, false},            // as well
		{&document.Progress{Rollout: "old", Release: "a", State: "committed", Outcome: "y"}, false},
	} {
		if got := replacedBy(r, c.u); got != c.want {
			t.Errorf("%+v: %v", c.u, got)
		}
	}
}
