//go:build !nocentral

package main

import (
	"testing"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
)

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
