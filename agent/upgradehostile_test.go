//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
)

// TestUpgradeByWhatIsNoFile: a pipe that nobody writes to, as a shell makes it of <(…), must not hold the upgrader, nor the end of the process; and the next order is taken up.
func TestUpgradeByWhatIsNoFile(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 10)
	file, release := program(t, b.dir, "v2", nil)
	pipe, loop := filepath.Join(b.dir, "pipe"), filepath.Join(b.dir, "loop")
	if err := errors.Join(unix.Mkfifo(pipe, 0o666), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, loop, "/dev/zero", b.dir} {
		if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: name, Release: release}); err == nil || !strings.Contains(err.Error(), "it is no file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); err != nil {
		t.Fatal(err)
	}
	b.ended()
}

// TestUpgradeWhoseRecordIsNoFile: the agent stands and says why, and keeps on running; it is not started again and again.
func TestUpgradeWhoseRecordIsNoFile(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 10)
	b.halt()
	dir := filepath.Join(b.dir, "state", "upgrade")
	if err := os.MkdirAll(filepath.Join(dir, "rec.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.start()
	got := b.await("it says so", func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.NotUsable != "" })
	if !strings.Contains(got.Upgrade.NotUsable, filepath.Join(dir, "rec.0")) || !strings.Contains(got.Upgrade.NotUsable, upgrade.ErrDamaged.Error()) {
		t.Errorf("%+v", got.Upgrade)
	}
	b.halt()
}
