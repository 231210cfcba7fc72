package uplinktest

import (
	"errors"
	"os"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
)

// SmallDisk mounts a full disk on a directory, which it makes, and skips the test where it may not. drain makes room.
func SmallDisk(t *testing.T, dir string, bytes int) (drain func()) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	free, done, err := rig.SmallDisk(dir, bytes)
	if errors.Is(err, rig.ErrNoMount) {
		t.Skip("NOT TESTED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return func() {
		if err := free(); err != nil {
			t.Fatal(err)
		}
	}
}

// OnFullDisk is a row of a sink, or of its server, on a disk without room.
func OnFullDisk(dir string, bytes int, dial func(t *testing.T) uplink.Endpoint, want ...string) Bad {
	var drain func()
	return Bad{Name: "full disk", Want: want,
		Dial: func(t *testing.T) uplink.Endpoint { drain = SmallDisk(t, dir, bytes); return dial(t) },
		Heal: func(*testing.T) { drain() }}
}
