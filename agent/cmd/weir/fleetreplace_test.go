//go:build !nocentral

package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// TestCommandsBehindAReplacedKey: what the key had signed that was replaced does not count any more. The next list takes its place when that is asked for, above the serials that gateways may remember.
func TestCommandsBehindAReplacedKey(t *testing.T) {
	f := newFleet(t, 1)
	restart := func(key string, args ...string) []string {
		return append([]string{"fleet", "command", "restart", "gw-000", "--yes", "--key", f.at(key)}, args...)
	}
	f.says(0, "for device/gw-000, serial 1", restart("keys/deploy-1.key")...)
	f.says(0, "for device/gw-000, serial 2", restart("keys/deploy-1.key")...)
	rotate := func(root string, next int, args ...string) {
		t.Helper()
		to := f.at(fmt.Sprintf("root.%d.json", next))
		f.want(0, fmt.Sprintf("root %d", next), append([]string{"keys", "rotate", "--root", f.at(root), "--to", to, "--key", f.at("keys/root-1.key")}, args...)...)
		f.says(0, fmt.Sprintf("root %d is published", next), "fleet", "root", to)
	}
	rotate("keys/root.1.json", 2, "--add", "deploy="+f.fresh("next"))
	rotate("root.2.json", 3, "--remove", "deploy=deploy-1") // one key stays, so gateways remember serials
	f.says(1, "--replace-unverified puts a new list in its place", restart("next.key")...)
	f.says(0, "for device/gw-000, serial 3", restart("next.key", "--replace-unverified")...)
	f.says(0, "for device/gw-000, serial 4", restart("next.key")...)

	stranger, err := signed.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	list, err := depot.NewCommands("plant", "device/gw-000", 0)
	if err == nil {
		list, _, err = depot.Append(list, document.Command{ID: "a", Do: document.DoRestart, CreatedMs: 1}, func(uint64) bool { return false }, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.keys["stranger"] = signed.KeySigner(stranger)
	for _, c := range []struct{ claims, next uint64 }{{9, 10}, {math.MaxInt64 >> 10, 1}} { // serials are not to be used up
		list.Serial = c.claims
		list.List[0].Serial = c.claims
		b, err := list.Encode()
		f.put(depot.DeviceCommands("gw-000"), signed.TypeCommands, "stranger", b, err)
		f.says(0, fmt.Sprintf("for device/gw-000, serial %d", c.next), restart("next.key", "--replace-unverified")...)
	}
}
