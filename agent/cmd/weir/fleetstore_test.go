//go:build !nocentral

package main

import (
	"testing"

	"github.com/weirstream/weir/fleet/depot"
)

// TestAStoreWithRubbish: what lies where the next root and a channel's roll-out are to be, and is none, keeps no operator from looking, ordering and going on; he is told what it is, and what to do.
func TestAStoreWithRubbish(t *testing.T) {
	f := newFleet(t, 1)
	f.alive("gw-1", "stable", "rpi4")
	f.release("1.4.0")
	for _, body := range [][]byte{nil, []byte("<html>"), make([]byte, 2<<20)} {
		if err := f.Bucket.Put(t.Context(), depot.Root(2), body); err != nil {
			t.Fatal(err)
		}
		f.says(0, "_fleet/roots/2.json in the store is no root document that counts", "fleet", "devices")
		f.says(0, "published: ", append([]string{"fleet", "command", "restart", "gw-1", "--yes"}, f.key("deploy")...)...)
	}
	f.says(0, "published: roll-out", append([]string{"fleet", "rollout", "1.4.0", "--id", "one", "--yes"}, f.key("deploy")...)...)
	f.says(0, "halted: roll-out one", append([]string{"fleet", "halt", "--why", "x"}, f.key("deploy")...)...)
	if err := f.Bucket.Put(t.Context(), depot.Rollout("stable"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	f.says(1, "--replace-unverified", append([]string{"fleet", "halt", "--why", "x"}, f.key("deploy")...)...)
	f.says(1, "--replace-unverified", "fleet", "status")
	for _, args := range [][]string{{"fleet", "command", "restart", "gw-000", "--expires", "-1h"}, {"fleet", "rollout", "1.4.0", "--replace-unverified", "--expires", "-1h"}, {"fleet", "command", "restart", " "}, {"fleet", "command", "apply", "gw-000", "--config-file", "/dev/zero"}} {
		f.says(2, map[bool]string{true: "want a time from now", false: ""}[args[len(args)-1] == "-1h"], append(append(args, "--yes"), f.key("deploy")...)...)
	}
	f.says(0, "no gateway \"nosuch\" has ever reported here", append([]string{"fleet", "command", "restart", "nosuch", "--yes"}, f.key("deploy")...)...)
	f.says(0, "published: ", append([]string{"fleet", "command", "restart", "gw-000", "gw-000", "--yes"}, f.key("deploy")...)...)
	f.says(0, "NOBODY is meant", append([]string{"fleet", "rollout", "1.4.0", "--id", "none", "--board", "nosuch", "--to", f.at("none.json"), "--replace-unverified", "--yes"}, f.key("deploy")...)...)
	f.says(0, "serial 3", append([]string{"fleet", "rollout", "1.4.0", "--id", "two", "--replace-unverified", "--yes"}, f.key("deploy")...)...)
}
