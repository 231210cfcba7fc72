//go:build !nocentral

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
)

// knows has a gateway report which serials it has verified.
func (f *aFleet) knows(gateway string, serials map[string]uint64) {
	f.t.Helper()
	b, err := (&document.State{Gateway: gateway, Channel: "stable", Board: "rpi4", Arch: "arm64", Version: "1.0", Root: 1, AtMs: 1, Serials: serials}).Encode()
	f.put(depot.State(gateway), signed.TypeState, gateway, b, err)
}

// lost has the store be as a backup has it, in which these names were not.
func (f *aFleet) lost(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := f.Bucket.Delete(f.t.Context(), name); err != nil {
			f.t.Fatal(err)
		}
	}
}

// restored is a fleet whose store is back at roll-out r1 of serial 1, while its gateways have verified r3 of serial 3.
func restored(t *testing.T) *aFleet {
	f := newFleet(t, 3)
	f.release("1.4.0")
	roll := func(id string) {
		f.says(0, "published", append([]string{"fleet", "rollout", "1.4.0", "--id", id, "--waves", "50%:0s,100%", "--min-reports", "1", "--yes"}, f.key("deploy")...)...)
	}
	roll("r1")
	backup, _, err := f.Read(t.Context(), depot.Rollout("stable"), "")
	if err != nil {
		t.Fatal(err)
	}
	roll("r2")
	roll("r3")
	for _, g := range []string{"gw-000", "gw-001", "gw-002"} {
		f.knows(g, map[string]uint64{"rollout/stable": 3, "commands/stable": 5, "device/" + g: 7})
	}
	if err := f.Bucket.Put(t.Context(), depot.Rollout("stable"), backup); err != nil {
		t.Fatal(err)
	}
	f.lost(depot.History("stable", 2), depot.History("stable", 3))
	return f
}

// TestStoreBehindItsGateways: a store that was restored from a backup holds what gateways refuse as a replay. The operator is told, time does not carry the old document on, and what he publishes is above what they have verified.
func TestStoreBehindItsGateways(t *testing.T) {
	const says = "the store holds serial 1 of rollout/stable, and 3 gateways (0 of them by a key in --device-keys; gw-000, say) have verified up to 3"
	f := restored(t)
	deploy := f.key("deploy")
	f.says(10, says, "fleet", "status")
	if st := f.status(10); st.Ahead == nil || st.Ahead.Most != 3 || st.Ahead.Gateways != 3 || st.ID != "r1" {
		t.Errorf("%+v", st)
	}
	_, was, err := f.CurrentRollout(t.Context(), f.trust(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the wave is over: it would go on
		f.fares("r1", was.Release, []string{"gw-000", "gw-001", "gw-002"}[i], rollout.Committed)
	}
	f.says(10, "gateways have verified a newer document", append([]string{"fleet", "reconcile"}, deploy...)...)
	f.says(0, "roll-out r1, serial 4", append([]string{"fleet", "resume", "--next-wave", "--yes"}, deploy...)...)
	if st := f.status(0); st.Ahead != nil || st.Wave != 2 {
		t.Errorf("%+v", st)
	}

	f = restored(t)
	f.says(0, says, append([]string{"fleet", "rollout", "1.4.0", "--id", "again", "--yes"}, f.key("deploy")...)...)
	if st := f.status(0); st.Serial != 4 {
		t.Errorf("%+v", st)
	}

	f = restored(t)
	f.says(0, "halted above what gateways have seen: roll-out r1, serial 4", append([]string{"fleet", "halt"}, f.key("deploy")...)...)
	f.says(0, "for commands/stable, serial 6", append([]string{"fleet", "command", "restart", "--all", "--yes"}, f.key("deploy")...)...)
	f.says(0, "for device/gw-000, serial 8", append([]string{"fleet", "command", "restart", "gw-000", "--yes"}, f.key("deploy")...)...)

	f = restored(t)
	f.lost(depot.Rollout("stable"), depot.History("stable", 1))
	var errs bytes.Buffer
	cmd := root()
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{"fleet", "status", "-c", f.config}, f.flags...))
	if err := cmd.ExecuteContext(t.Context()); exitCode(err) != 2 || !strings.Contains(errs.String(), "the store holds no document that counts of rollout/stable, and 3 gateways") {
		t.Errorf("%v: %s", err, &errs)
	}
	f.says(0, "serial 4", append([]string{"fleet", "rollout", "1.4.0", "--id", "again", "--yes"}, f.key("deploy")...)...)
}

// TestReportsThatLieOfSerials: they move the next serial no further than a store can be behind, and where keys are known, keep no roll-out from going on.
func TestReportsThatLieOfSerials(t *testing.T) {
	f := restored(t)
	deploy := f.key("deploy")
	pins := f.at("pins.txt")
	if err := os.WriteFile(pins, []byte("gw-009 "+signed.FormatLine(f.keys["gw-000"].Public())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.says(0, "have verified up to 3", "fleet", "status", "--device-keys", pins) // nobody vouches for those who say so
	f.knows("gw-001", map[string]uint64{"rollout/stable": strict.SerialMost, "commands/stable": strict.SerialMost, "device/gw-001": strict.SerialMost})
	out := f.says(10, "1 gateways (gw-001, say) report a serial of rollout/stable that nobody has given out", "fleet", "status")
	if !strings.Contains(out, "2 gateways (0 of them") {
		t.Error(out)
	}
	f.says(0, "roll-out again, serial 4", append([]string{"fleet", "rollout", "1.4.0", "--id", "again", "--yes"}, deploy...)...)
	f.says(0, "for commands/stable, serial 6", append([]string{"fleet", "command", "restart", "--all", "--yes"}, deploy...)...)
	f.says(0, "for device/gw-001, serial 1", append([]string{"fleet", "command", "restart", "gw-001", "--yes"}, deploy...)...)
}

// TestNamesThatNobodyHasSigned: a name alone uses no serial up, and answers no command.
func TestNamesThatNobodyHasSigned(t *testing.T) {
	f := newFleet(t, 1)
	deploy := f.key("deploy")
	order := func(says string, args ...string) {
		t.Helper()
		f.says(0, says, append(append([]string{"fleet", "command", "restart", "gw-000", "--yes"}, deploy...), args...)...)
	}
	order("for device/gw-000, serial 1")
	for _, n := range []uint64{1, 2, 900, strict.SerialMost} {
		if err := f.Bucket.Put(t.Context(), depot.Result("gw-000", "device/gw-000", 1, n), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	order("counts for nothing")
	_, list, err := f.CurrentCommands(t.Context(), f.trust(), "device/gw-000")
	if err != nil || list.Serial != 2 || len(list.List) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	b, err := (&document.Result{Gateway: "gw-000", Scope: "device/gw-000", Serial: 5, ID: "x", Do: "restart", Result: "done", AtMs: 1}).Encode()
	f.put(depot.Result("gw-000", "device/gw-000", 1, 5), signed.TypeResult, "gw-000", b, err) // of a list that was lost
	order("for device/gw-000, serial 6")
	if err := f.Bucket.Put(t.Context(), depot.DeviceCommands("gw-000"), []byte("rubbish")); err != nil {
		t.Fatal(err)
	}
	f.says(1, "--replace-unverified", append([]string{"fleet", "command", "restart", "gw-000", "--yes"}, deploy...)...)
	order("for device/gw-000, serial 6", "--replace-unverified")
}
