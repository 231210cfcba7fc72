package channel

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// lostResult damages the result of the first of two commands before it was sent.
func lostResult(t *testing.T, f faults, damage func(name string) error) error {
	w := newWorld(t)
	w.faults = f
	w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
	w.bucket.Fault = func(r buckettest.Request) buckettest.Fault {
		if r.Verb == "put" {
			return buckettest.Lost
		}
		return buckettest.None
	}
	w.run(5 * time.Minute)
	w.bucket.Fault = nil
	first := w.ch.resultPath(&order{Scope: "device/" + gatewayName, Since: 1, Serial: 1})
	if err := damage(first); err != nil {
		t.Fatal(err)
	}
	w.run(30 * time.Minute)
	if r := w.result(2); r == nil || r.Result != document.ResultDone {
		return fmt.Errorf("the other result: %+v", r)
	}
	if r := w.result(1); r == nil || r.Result != document.ResultFailed || !strings.Contains(r.Detail, "lost") {
		return fmt.Errorf("the lost result: %+v", r)
	}
	if _, _, err := w.bucket.Get(t.Context(), depot.State(gatewayName)); err != nil {
		return fmt.Errorf("no report: %w", err)
	}
	if got := fmt.Sprint(w.acts.did()); got != "[device/gw-1 stop 1 device/gw-1 start 2]" {
		return fmt.Errorf("done %s", got)
	}
	return nil
}

// TestAResultThatTheDiskHasLost keeps neither others nor reports back.
func TestAResultThatTheDiskHasLost(t *testing.T) {
	for what, damage := range map[string]func(name string) error{
		"gone":      os.Remove,
		"empty":     func(name string) error { return os.Truncate(name, 0) },
		"directory": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
		"rubbish":   func(name string) error { return os.WriteFile(name, make([]byte, 4096), 0o600) },
	} {
		synctest.Test(t, func(t *testing.T) {
			if err := lostResult(t, faults{}, damage); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// TestAResultThatTheStoreHas is not written over when the device has lost its own.
func TestAResultThatTheStoreHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(1, command(1, document.DoStop))
		w.run(10 * time.Minute)
		if err := os.Remove(w.ch.resultPath(&order{Scope: "device/" + gatewayName, Since: 1, Serial: 1})); err != nil {
			t.Fatal(err)
		}
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart)) // published anew: results are sent once more
		w.run(10 * time.Minute)
		if r := w.result(1); r == nil || r.Result != document.ResultDone {
			t.Errorf("%+v", r)
		}
		if r := w.result(2); r == nil || r.Result != document.ResultDone {
			t.Errorf("%+v", r)
		}
	})
}
