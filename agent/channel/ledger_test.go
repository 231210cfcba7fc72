package channel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
)

// ledgered gives a gateway that has done two commands and is in the middle of a third, and its ledger.
func ledgered(t *testing.T) (w *world, want string, b []byte) {
	w = newWorld(t)
	w.commands(3, command(1, document.DoStop), command(2, document.DoStart), command(3, document.DoRestart))
	w.run(time.Minute)
	l, damaged, err := loadLedger(disk.OS, filepath.Join(w.dir, "fleet"))
	if err != nil || damaged != nil || len(l.Orders) != 3 || l.Orders[2].Ended {
		t.Fatalf("%+v, %v, %v", l, damaged, err)
	}
	if b, err = disk.ReadFile(disk.OS, filepath.Join(w.dir, "fleet", ledgerFile)); err != nil {
		t.Fatal(err)
	}
	return w, said(l), b
}

func said(l *ledger) string {
	b, err := record.Encode(l)
	return fmt.Sprint(string(b), err)
}

// TestEachBitOfALedger: whatever flash has changed is found, or says the same.
func TestEachBitOfALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, want, b := ledgered(t)
		for bit := range 8 * len(b) {
			l := &ledger{Format: 1}
			b[bit/8] ^= 1 << (bit % 8)
			if err := l.decode(b); err == nil && said(l) != want {
				t.Errorf("bit %d is not found: %s", bit, said(l))
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	})
}

// TestALedgerWithoutACommand, as an earlier weir without a checksum may have left it on bad flash, is damaged: a start does not run into it.
func TestALedgerWithoutACommand(t *testing.T) {
	for _, text := range []string{`{"orders":[null]}`, `{"orders":[{"scope":"device/gw-1","serial":1,"do":"stop"}]}`} {
		if err := (&ledger{}).decode([]byte(text)); err == nil {
			t.Errorf("%s is taken for one", text)
		}
	}
}

// TestADamagedLedgerHasACopy: the gateway goes on as if nothing had been, and does nothing twice.
func TestADamagedLedgerHasACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, b := ledgered(t)
		b[len(b)/2] ^= 4
		name := filepath.Join(w.dir, "fleet", ledgerFile)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		w.commands(4, command(1, document.DoStop), command(2, document.DoStart), command(3, document.DoRestart), command(4, document.DoStop))
		w.run(10 * time.Minute)
		if got := fmt.Sprint(w.acts.did()); got != "[device/gw-1 stop 1 device/gw-1 start 2 device/gw-1 restart 3 device/gw-1 stop 4]" || w.log.lines("fleet's ledger is damaged, and its copy is taken") != 1 {
			t.Errorf("done %s", got)
		}
		if l, damaged, err := loadLedger(disk.OS, filepath.Join(w.dir, "fleet")); err != nil || damaged != nil || len(l.Orders) != 4 {
			t.Errorf("%v, %v", damaged, err)
		}
	})
}
