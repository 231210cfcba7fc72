//go:build !nocentral

package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
)

// TestRule28_ARepairTakesNoIncarnation: a copy of state_dir that is repaired on another board says what a start there would do, and leaves claim, key and identity as they are: the device goes on. A
// start there is what takes them, which is the fault that is found.
func TestRule28_ARepairTakesNoIncarnation(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	plain := "central: {url: \"file://" + b.dir + "/central\", interval: 1s}\n" + b.text
	b.text = "board_serial: one\n" + plain
	b.start()
	b.put(1, 40)
	b.await("uploads", func(s *api.Status) bool { return at(40)(s) && uploadedTo(0, 40)(s) })
	b.halt()
	key := filepath.Join(b.dir, "state", "identity", "key")
	if err := os.Remove(key); err != nil { // of a device whose key was kept from the copy
		t.Fatal(err)
	}
	before := b.whose()
	b.text = "board_serial: two\n" + plain
	for _, repair := range []bool{false, true} {
		r, err := Check(t.Context(), b.parse(), repair)
		if err != nil || len(r.Stops)+len(r.Damage) > 0 || !slices.ContainsFunc(r.Lines, func(l string) bool {
			return strings.Contains(l, "another board") && strings.Contains(l, "stops the device")
		}) {
			t.Errorf("repair %v: %v, %+v", repair, err, r)
		}
		if now := b.whose(); now != before {
			t.Errorf("repair %v: %s, before %s", repair, now, before)
		}
		if _, err := os.Stat(key); err == nil {
			t.Errorf("repair %v has made a key", repair)
		}
	}
	b.start()
	if now := b.whose(); now == before || b.agent.incarnation().String() != "2.0" {
		t.Errorf("a start on another board is not seen: %s", now)
	}
	b.halt()
}

// whose is who speaks for the gateway: the claim in the central store, and what state_dir says.
func (b *bench) whose() string {
	b.t.Helper()
	store, err := offsite.OpenCentral(b.parse(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer store.Close()
	c, version, err := central.ReadClaim(b.t.Context(), store, "test")
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := identity.Load(disk.OS, filepath.Join(b.dir, "state"))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join([]string{c.Board, version, r.Incarnation().String(), r.Token}, " ")
}

// TestRule28_ACheckSaysThatItDoesNotStart: without a central store nobody but the operator knows whether the other board still works; and a fenced device works no more.
func TestRule28_ACheckSaysThatItDoesNotStart(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	plain := b.text
	b.text = "board_serial: one\n" + plain
	b.start()
	b.put(1, 20)
	b.await("delivery", at(20))
	b.halt()
	stops := func(repair bool, text string) {
		t.Helper()
		r, err := Check(t.Context(), b.parse(), repair)
		if err != nil || len(r.Damage) > 0 || len(r.Stops) != 1 || !strings.Contains(r.Stops[0], text) {
			t.Errorf("repair %v: %v, %+v", repair, err, r)
		}
	}
	b.text = "board_serial: two\n" + plain
	stops(false, "--new-board")
	stops(true, "--new-board")
	b.text = "board_serial: one\n" + plain
	if err := (&identity.Fenced{Major: 7, Where: "somebody"}).Save(disk.OS, filepath.Join(b.dir, "state")); err != nil {
		t.Fatal(err)
	}
	stops(false, "weir handover")
	stops(true, "weir handover")
	name := filepath.Join(b.dir, "state", "fenced")
	text, err := os.ReadFile(name)
	if err != nil || !bytes.Contains(text, []byte("somebody")) {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		r, err := Check(t.Context(), b.parse(), repair)
		if err != nil || len(r.Damage) != 1 || len(r.Stops) != 1 || !strings.Contains(r.Stops[0], "fenced") {
			t.Errorf("repair %v: %v, %+v", repair, err, r)
		}
	}
}
