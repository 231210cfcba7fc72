package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// TestARollOutIsAskedForOnce, over its waves and over starts, whatever runs.
func TestARollOutIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.release("2")
		for serial, permille := range []int{0, 1000, 1000, 1000} {
			r := rolloutOf(uint64(serial+1), "r1", release)
			r.Permille = permille
			w.rollout(r)
			w.run(20 * time.Minute)
			if want := min(serial, 1); len(w.acts.asked) != want {
				t.Fatalf("wave %d: asked %v, want %d times", serial, w.acts.asked, want)
			}
		}
		w.rollout(rolloutOf(5, "r1", w.release("3"))) // another release is another attempt
		w.run(20 * time.Minute)
		w.rollout(rolloutOf(6, "r2", release)) // as is another roll-out
		w.run(20 * time.Minute)
		if fmt.Sprint(w.acts.asked) != "[rollout/stable r1 2 rollout/stable r1 3 rollout/stable r2 2]" {
			t.Errorf("asked %v", w.acts.asked)
		}
	})
}

func TestJudgeRollout(t *testing.T) {
	release := strings.Repeat("1", 64)
	for _, c := range []struct {
		name   string
		change func(r *document.Rollout, f *facts)
		want   pursuit
	}{
		{"for all", func(*document.Rollout, *facts) {}, hand},
		{"nobody is in", func(r *document.Rollout, _ *facts) { r.Permille = 0 }, leave},
		{"up to this gateway", func(r *document.Rollout, f *facts) { r.Permille = document.Cohort(r.ID, f.gateway) }, leave},
		{"this gateway is in", func(r *document.Rollout, f *facts) { r.Permille = document.Cohort(r.ID, f.gateway) + 1 }, hand},
		{"for others", func(r *document.Rollout, _ *facts) { r.Audience.Gateways = []string{"x"} }, leave},
		{"for other boards", func(r *document.Rollout, _ *facts) { r.Audience.Boards = []string{"x"} }, leave},
		{"for this board", func(r *document.Rollout, f *facts) { r.Audience.Boards = []string{f.board} }, hand},
		{"halted before", func(r *document.Rollout, _ *facts) { r.Halted = true }, leave},
		{"halted in the middle", func(r *document.Rollout, f *facts) {
			r.Halted, f.handed = true, &handed{ID: r.ID, Release: release, Asked: true}
		}, halt},
		{"another is halted", func(r *document.Rollout, f *facts) {
			r.Halted, f.handed = true, &handed{ID: "r0", Release: release, Asked: true}
		}, leave},
		{"it runs", func(r *document.Rollout, f *facts) { f.release = release }, runs},
		{"it runs, by this roll-out", func(r *document.Rollout, f *facts) {
			f.release, f.handed = release, &handed{ID: r.ID, Release: release, Asked: true}
		}, leave},
		{"too late", func(r *document.Rollout, f *facts) { r.ExpiresMs, f.nowMs, f.trusted = 5, 6, true }, expired},
		{"too late, by a clock that is not trusted", func(r *document.Rollout, f *facts) { r.ExpiresMs, f.nowMs = 5, 6 }, hand},
		{"asked before the crash", func(r *document.Rollout, f *facts) { f.handed = &handed{ID: r.ID, Release: release} }, hand},
		{"refused", func(r *document.Rollout, f *facts) {
			f.handed = &handed{ID: r.ID, Release: release, Outcome: outcomeGated}
		}, leave},
		{"its release did not count", func(r *document.Rollout, f *facts) {
			f.handed = &handed{ID: r.ID, Release: release, Outcome: outcomeGated, Unread: true}
		}, hand},
	} {
		r, f := rolloutOf(1, "r1", release), facts{gateway: gatewayName, board: boardName, release: strings.Repeat("0", 64)}
		c.change(r, &f)
		if got := judgeRollout(r, f); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAHaltIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := rolloutOf(1, "r1", w.release("2"))
		w.rollout(r)
		w.start()
		defer func() { w.stop() }()
		time.Sleep(time.Minute)
		r.Serial, r.Halted, r.WhyHalt = 2, true, "too many failed"
		w.rollout(r)
		time.Sleep(6 * time.Minute)
		w.stop()
		if len(w.acts.halted) == 0 || w.acts.halted[0] != "r1: too many failed" {
			t.Errorf("halted %v", w.acts.halted)
		}
	})
}

func TestAnUpgraderThatIsBusyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acts.refuse = fmt.Errorf("an upgrade is under way: %w", ErrLater)
		w.rollout(rolloutOf(1, "r1", w.release("2")))
		w.run(20 * time.Minute)
		w.acts.refuse = nil
		if w.run(20 * time.Minute); len(w.acts.asked) != 1 {
			t.Errorf("asked %v", w.acts.asked)
		}
	})
}

// progressOf is what the store has of this gateway in a roll-out.
func progressOf(t *testing.T, w *world, id string) *document.Progress {
	t.Helper()
	b, _, err := w.bucket.Get(context.Background(), depot.Progress(id, gatewayName))
	if err != nil {
		return &document.Progress{}
	}
	payload, err := signed.VerifyDevice(b, signed.TypeProgress, keyOf("device").Public())
	if err != nil {
		t.Fatal(err)
	}
	p, err := document.DecodeProgress(payload)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProgressIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.release("2")
		w.acts.refuse = errors.New("the board is another")
		w.rollout(rolloutOf(1, "r1", release))
		w.run(10 * time.Minute)
		if p := progressOf(t, w, "r1"); p.Outcome != outcomeGated || p.Why != "the board is another" || p.Release != release {
			t.Errorf("%+v", p)
		}
		w.acts.refuse = nil
		w.acts.upgrade = &document.Progress{Rollout: "r2", Release: release, State: "fetching", From: "1", To: "2"}
		w.rollout(rolloutOf(2, "r2", release))
		w.run(10 * time.Minute)
		if p := progressOf(t, w, "r2"); p.State != "fetching" || p.Outcome != "" {
			t.Errorf("%+v", p)
		}
	})
}

// TestACrashInTheHandingOver: the upgrader, which takes a roll-out once, is asked again, and it ends as handed over.
func TestACrashInTheHandingOver(t *testing.T) {
	for n := 1; n < 8; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			step := 0
			w.hook = func(string) {
				if step++; step == n {
					panic(errCrash)
				}
			}
			w.rollout(rolloutOf(1, "r1", w.release("2")))
			w.run(10 * time.Minute)
			w.hook = nil
			w.run(10 * time.Minute)
			if h := w.ch.ledger.Rollout; h == nil || !h.Asked || len(w.acts.asked) < 1 || len(w.acts.asked) > 2 {
				t.Errorf("a crash at step %d: %+v, asked %v", n, h, w.acts.asked)
			}
		})
	}
}

// TestReportsAreFew: on a change, once a minute at most, and once a day.
func TestReportsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		defer func() { w.stop() }()
		time.Sleep(23 * time.Hour)
		if n := w.ch.Status().Reports; n > 2 {
			t.Errorf("%d reports on a quiet day", n)
		}
		before := w.ch.Status().Reports
		time.Sleep(2 * time.Hour)
		if n := w.ch.Status().Reports; n != before+1 {
			t.Errorf("%d reports in the next two hours, want one: a day is over", n-before)
		}
		before = w.ch.Status().Reports
		for i := range 3600 {
			w.acts.mu.Lock()
			w.acts.problems = []string{fmt.Sprintf("the store is %d.%d seconds behind", i, i)}
			w.acts.mu.Unlock()
			time.Sleep(time.Second)
		}
		if n := w.ch.Status().Reports - before; n != 1 {
			t.Errorf("%d reports of a problem whose number changes, want 1", n)
		}
		before = w.ch.Status().Reports
		for i := range 3600 {
			w.acts.mu.Lock()
			w.acts.problems = []string{strings.Repeat("x", i%2+1)}
			w.acts.mu.Unlock()
			time.Sleep(time.Second)
		}
		if n := w.ch.Status().Reports - before; n > 61 || n < 30 {
			t.Errorf("%d reports in an hour in which everything changes, want about 50", n)
		}
	})
}
