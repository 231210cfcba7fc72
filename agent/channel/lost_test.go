package channel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
)

// loses has the ledger, and its copy, be none that can be read.
func (w *world) loses() string {
	w.t.Helper()
	dir := filepath.Join(w.dir, "fleet")
	for _, name := range []string{Ledger(dir), filepath.Join(dir, ledgerCopy)} {
		if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return Ledger(dir)
}

// TestMute: a gateway whose ledger cannot be read says what it is, does nothing, and leaves the ledger as it is.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commands(1, command(1, document.DoStop))
		w.run(time.Minute)
		name := w.loses()
		if err := w.store().Delete(t.Context(), depot.State(gatewayName)); err != nil {
			t.Fatal(err)
		}
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.run(10 * time.Minute)
		if _, _, err := w.store().Get(t.Context(), depot.State(gatewayName)); err != nil || w.ch.Unread() == nil {
			t.Errorf("no report: %v; unread: %v", err, w.ch.Unread())
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != "{" || len(w.acts.did()) != 1 {
			t.Errorf("%q, %v, done %v", b, err, w.acts.did())
		}
	})
}

// TestLedgerMadeAnew: each command runs once at most, also one whose result was lost with the ledger, and over a crash at each step; what is published from then on is carried out.
func TestLedgerMadeAnew(t *testing.T) {
	for _, at := range []string{"", "serial-before", "serial-after", "result-before", "result-after", "end-after"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			list := []document.Command{command(1, document.DoStop), command(2, document.DoRestartPipeline)}
			w.commands(2, list...)
			w.run(time.Minute)
			for _, n := range []uint64{2} { // the store has lost it too
				if err := w.store().Delete(t.Context(), depot.Result(gatewayName, "device/"+gatewayName, 1, n)); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(w.ch.resultPath(&order{Scope: "device/" + gatewayName, Since: 1, Serial: n})); err != nil {
					t.Fatal(err)
				}
			}
			w.loses()
			if err := Unreadable(disk.OS, filepath.Join(w.dir, "fleet")); err == nil {
				t.Fatal("it can be read")
			}
			if err := Renew(disk.OS, filepath.Join(w.dir, "fleet"), Scopes(channelName, gatewayName)...); err != nil {
				t.Fatal(err)
			}
			if at != "" {
				w.hook = func(where string) {
					if where == at {
						panic(errCrash)
					}
				}
				w.run(time.Minute)
				w.hook = nil
			}
			list = append(list, command(3, document.DoStart)) // published before the gateway has looked, or behind the crash
			w.commands(3, list...)
			w.run(10 * time.Minute)
			list = append(list, command(4, document.DoStart))
			w.commands(4, list...)
			w.run(10 * time.Minute)
			want := "[device/gw-1 stop 1 device/gw-1 restart-pipeline 2 device/gw-1 start 4]"
			if at != "" && at != "serial-before" { // the list before it counted
				want = "[device/gw-1 stop 1 device/gw-1 restart-pipeline 2 device/gw-1 start 3 device/gw-1 start 4]"
			}
			if got := fmt.Sprint(w.acts.did()); got != want {
				t.Errorf("crash at %q: done %s", at, got)
			}
			first, second := w.result(1), w.result(2)
			if first == nil || first.Result != document.ResultDone || second == nil || second.Result != document.ResultFailed || second.Detail != lostDetail {
				t.Errorf("crash at %q: %+v, %+v", at, first, second)
			}
			if l, _, err := loadLedger(disk.OS, filepath.Join(w.dir, "fleet")); err != nil || len(l.Lost) != 1 || l.Lost[0] != "commands/"+channelName { // that scope has no list yet
				t.Errorf("crash at %q: %+v, %v", at, l, err)
			}
		})
	}
}
