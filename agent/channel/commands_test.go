package channel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

func TestCommandsOfBothScopesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mine := commandsOf(9, command(3, document.DoSavepoint), command(9, document.DoStop))
		all := commandsOf(2, command(1, document.DoDiagnostics), command(2, document.DoStart))
		all.Scope = "commands/" + channelName
		all.List[1].Audience.Gateways = []string{"gw-2"}
		mine.List[1].Audience.Boards = []string{"other"}
		w.put(depot.DeviceCommands(gatewayName), sealed(t, signed.TypeCommands, encoded(t, mine), "deploy"))
		w.put(depot.ChannelCommands(channelName), sealed(t, signed.TypeCommands, encoded(t, all), "deploy"))
		w.run(2 * time.Minute)
		if got := fmt.Sprint(w.acts.did()); got != "[commands/stable diagnostics 1 device/gw-1 savepoint 3]" {
			t.Errorf("done %s", got)
		}
		if r := w.result(9); r == nil || r.Result != document.ResultNotHere {
			t.Errorf("result of what is not for this board: %+v", r)
		}
		if names := w.bucket.Names(depot.ReportsOf(gatewayName) + "result/"); len(names) != 3 {
			t.Errorf("results %v: those of a channel that are not for a gateway are not sent", names)
		}
	})
}

func TestExpiryNeedsAClockThatIsTrusted(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.clock.trusted = trusted
			c := command(1, document.DoStop)
			c.ExpiresMs = created + 1
			w.commands(1, c)
			w.run(time.Minute)
			want := document.ResultDone
			if trusted {
				want = document.ResultExpired
			}
			if r := w.result(1); r == nil || r.Result != want || (len(w.acts.did()) == 0) != trusted {
				t.Errorf("trusted %v: %+v, done %v", trusted, r, w.acts.did())
			}
		})
	}
}

// TestResultsAreReturnedAgain when the list that still has them is published again.
func TestResultsAreReturnedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(1, command(1, document.DoStop))
		w.start()
		time.Sleep(time.Minute)
		name := depot.Result(gatewayName, "device/"+gatewayName, 1, 1)
		w.bucket.Change(name, func([]byte) []byte { return nil })
		time.Sleep(10 * time.Minute)
		if w.result(1) != nil {
			t.Fatal("nobody asked for it")
		}
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		time.Sleep(10 * time.Minute)
		w.stop()
		if w.result(1) == nil || w.result(2) == nil || len(w.acts.did()) != 2 {
			t.Errorf("%v %v, done %v", w.result(1), w.result(2), w.acts.did())
		}
	})
}

// TestOldResultsAreForgotten: a ledger has a bound.
func TestOldResultsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		for n := uint64(1); n <= 80; n++ {
			w.commands(n, command(n, document.DoStop))
			time.Sleep(6 * time.Minute)
		}
		w.stop()
		files, err := os.ReadDir(filepath.Join(w.dir, "fleet", resultDir))
		if len(w.acts.did()) != 80 || len(w.ch.ledger.Orders) != ordersMost || err != nil || len(files) > ordersMost+1 {
			t.Errorf("%d done, %d remembered, %d files (%v)", len(w.acts.did()), len(w.ch.ledger.Orders), len(files), err)
		}
	})
}

// crashes runs one command with a crash at the n-th durable step, and gives whether there was one. Behind it the process starts again.
func crashes(t *testing.T, f faults, do string, n int) (crashed bool, w *world) {
	w = newWorld(t)
	w.faults = f
	step := 0
	w.hook = func(string) {
		if step++; step == n {
			crashed = true
			panic(errCrash)
		}
	}
	w.commands(1, command(1, do))
	if do == document.DoUpgrade {
		c := command(1, do)
		c.Release = w.release("2")
		w.commands(1, c)
		w.acts.ends = &Outcome{Result: document.ResultDone, Detail: "committed"}
	}
	w.run(2 * time.Minute)
	w.run(2 * time.Minute) // a command may end here, and the crash be in this one
	w.hook = nil
	w.run(2 * time.Minute)
	w.run(2 * time.Minute) // an ordinary start changes nothing
	return crashed, w
}

// onceProblem tells what is wrong with how often a command was carried out.
func onceProblem(w *world, do string) error {
	did := len(w.acts.did())
	if do == document.DoUpgrade {
		did = len(w.acts.asked)
	}
	most := 1
	if Repeats(&document.Command{Do: do}) {
		most = 2
	}
	r := w.result(1)
	switch {
	case did > most:
		return fmt.Errorf("it was carried out %d times: %v", did, w.acts.did())
	case r == nil:
		return errors.New("there is no result")
	case did == 0 && r.Result != document.ResultFailed && do != document.DoRestart && do != document.DoRotateKey:
		return fmt.Errorf("it was never carried out, and the result is %+v", r)
	case r.Result != document.ResultDone && !(r.Result == document.ResultFailed && strings.Contains(r.Detail, "cut short")):
		return fmt.Errorf("the result is %+v", r)
	}
	for _, o := range w.ch.ledger.Orders {
		if !o.Ended || !o.Sent || !o.Settled || o.Command != nil {
			return fmt.Errorf("the order is left as %+v", o)
		}
	}
	return nil
}

var allCommands = []string{document.DoSavepoint, document.DoStop, document.DoStart, document.DoRestartPipeline, document.DoApply, document.DoRestart, document.DoUpgrade, document.DoDiagnostics, document.DoRotateKey}

// TestACrashAtEachStep: each command is carried out once, or twice when that changes nothing, and has a result.
func TestACrashAtEachStep(t *testing.T) {
	for _, do := range allCommands {
		t.Run(do, func(t *testing.T) {
			steps := 0
			for n := 1; ; n++ {
				over := false
				synctest.Test(t, func(t *testing.T) {
					crashed, w := crashes(t, faults{}, do, n)
					if over = !crashed; over {
						return
					}
					if err := onceProblem(w, do); err != nil {
						t.Errorf("a crash at step %d: %v", n, err)
					}
				})
				if over {
					break
				}
				steps++
			}
			if steps < 7 {
				t.Errorf("%d steps were crashed at, want 7 at least", steps)
			}
		})
	}
}

// TestTheOldKeySignsTheRotation, and the new one what comes behind it.
func TestTheOldKeySignsTheRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(2, command(1, document.DoRotateKey), command(2, document.DoStop))
		w.run(3 * time.Minute)
		for serial, key := range map[uint64]string{1: "device", 2: "device2"} {
			b, _, err := w.bucket.Get(context.Background(), depot.Result(gatewayName, "device/"+gatewayName, 1, serial))
			if err == nil {
				_, err = signed.VerifyDevice(b, signed.TypeResult, keyOf(key).Public())
			}
			if err != nil {
				t.Errorf("result of %d by %s: %v", serial, key, err)
			}
		}
	})
}

// TestBehindARestart: what comes behind it is done by the next process.
func TestBehindARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(2, command(1, document.DoRestart), command(2, document.DoStop))
		w.run(time.Minute)
		if got := w.acts.did(); len(got) != 1 || w.result(1) != nil {
			t.Errorf("in the process that is to end: %v, result %v", got, w.result(1))
		}
		w.run(time.Minute)
		if got := w.acts.did(); len(got) != 2 || w.result(1) == nil || w.result(1).Result != document.ResultDone {
			t.Errorf("behind it: %v, result %v", got, w.result(1))
		}
	})
}

// TestAnUpgradeKeepsNobodyWaiting: what comes behind it goes on, but for another upgrade, and its result follows.
func TestAnUpgradeKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, other, none := command(1, document.DoUpgrade), command(3, document.DoUpgrade), command(4, document.DoUpgrade)
		one.Release, other.Release = w.release("2"), w.release("3")
		w.commands(5, one, command(2, document.DoStop), other, none, command(5, document.DoStart))
		w.run(2 * time.Minute)
		if len(w.acts.did()) != 1 || w.result(1) != nil || len(w.acts.asked) != 1 {
			t.Fatalf("done %v, asked %v, result %v", w.acts.did(), w.acts.asked, w.result(1))
		}
		w.acts.ends = &Outcome{Result: document.ResultFailed, Detail: "rolled back"}
		w.run(5 * time.Minute)
		if r := w.result(1); r == nil || r.Result != document.ResultFailed {
			t.Errorf("result of the first: %+v", r)
		}
		if r := w.result(4); r == nil || len(w.acts.did()) != 2 {
			t.Errorf("result of the last: %+v, done %v", r, w.acts.did())
		}
	})
}

// TestAReleaseThatIsNotThere: the command has failed, and what comes behind it goes on.
func TestAReleaseThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(2, command(1, document.DoUpgrade), command(2, document.DoStop))
		w.run(2 * time.Minute)
		if r := w.result(1); r == nil || r.Result != document.ResultRefused || len(w.acts.did()) != 1 || len(w.acts.asked) > 0 {
			t.Errorf("%+v, done %v", r, w.acts.did())
		}
	})
}

// TestADeviceThatTakesAPlace does not do again what the one before has done: its results are in the store.
func TestADeviceThatTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.run(time.Minute)
		w.dir = t.TempDir()
		w.commands(3, command(1, document.DoStop), command(2, document.DoStart), command(3, document.DoStop))
		w.run(time.Minute)
		w.run(time.Minute)
		if got := fmt.Sprint(w.acts.did()); got != "[device/gw-1 stop 1 device/gw-1 start 2 device/gw-1 stop 3]" {
			t.Errorf("done %s", got)
		}
	})
}

// TestALedgerThatCannotBeRead keeps the channel from doing anything twice.
func TestALedgerThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"{", `{"format":2}`} {
		if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := loadLedger(disk.OS, dir)
		if err == nil || errors.Is(err, ErrNewer) != (text != "{") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPlantedFaults: what these tests are for, they find.
func TestPlantedFaults(t *testing.T) {
	find := func(name string, f func(t *testing.T) error) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if f(t) == nil {
					t.Error("the fault is not found")
				}
			})
		})
	}
	find("save always", func(t *testing.T) error { return idle(t, faults{saveAlways: true}) })
	find("every ring", func(t *testing.T) error {
		if n := rung(t, faults{everyRing: true}); n > 10 {
			return errors.New("found")
		}
		return nil
	})
	find("act first", func(t *testing.T) (err error) {
		for n := 1; n < 12 && err == nil; n++ {
			crashed, w := crashes(t, faults{actFirst: true}, document.DoApply, n)
			if crashed {
				err = onceProblem(w, document.DoApply)
			}
		}
		return err
	})
	refused := func(f faults, names ...string) func(t *testing.T) error {
		return func(t *testing.T) error {
			for _, a := range attacks() {
				if slices.Contains(names, a.name) {
					if _, done, _ := attack(t, f, a.at, a.body); len(done) > 0 {
						return errors.New("found")
					}
				}
			}
			return nil
		}
	}
	find("never replaced", func(t *testing.T) error { return replaces(t, faults{neverReplaced: true}) })
	find("results stay", func(t *testing.T) error { return lostResult(t, faults{resultsStay: true}, os.Remove) })
	find("any fleet", refused(faults{anyFleet: true}, "of another fleet"))
	find("any serial", func(t *testing.T) error {
		w := newWorld(t)
		w.faults = faults{anySerial: true}
		w.commands(1, command(1, document.DoStop))
		old := w.bucket.Clone()
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.run(time.Minute)
		w.bucket = old
		w.run(time.Hour)
		if s := w.ch.Status(); s.Serials["device/"+gatewayName] != 2 {
			return errors.New("found")
		}
		return nil
	})
	find("any audience", func(t *testing.T) error {
		w := newWorld(t)
		w.faults = faults{anyAudience: true}
		c := command(1, document.DoStop)
		c.Audience.Gateways = []string{"gw-2"}
		w.commands(1, c)
		if w.run(time.Minute); len(w.acts.did()) > 0 {
			return errors.New("found")
		}
		return nil
	})
	find("ask always", func(t *testing.T) error {
		w := newWorld(t)
		w.faults = faults{askAlways: true}
		w.rollout(rolloutOf(1, "r1", w.release("2")))
		if w.run(time.Hour); len(w.acts.asked) > 1 {
			return errors.New("found")
		}
		return nil
	})
}
