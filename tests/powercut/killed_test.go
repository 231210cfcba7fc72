//go:build !arm && !386

package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// victimEnv names the file in which a run that is to be killed says which disk it has mounted.
const victimEnv = "WEIR_POWERCUT_VICTIM"

// TestKilledRunLeavesNothing: a run that dies with a process at work on its disk, as a test at its time limit does, leaves no loop device.
func TestKilledRunLeavesNothing(t *testing.T) {
	needMachine(t)
	said := filepath.Join(t.TempDir(), "said")
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestVictim$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, insideEnv+"=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, victimEnv+"="+said)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var disk []byte
	until(func() bool {
		disk, _ = os.ReadFile(said) // it is not there yet
		return len(disk) > 0 && attached(t, string(disk))
	})
	cmd.Process.Kill()
	cmd.Wait() //nolint:errcheck // it was killed
	if len(disk) == 0 {
		t.Fatal("the run did not mount its disk")
	}
	until(func() bool { return !attached(t, string(disk)) })
	if attached(t, string(disk)) {
		t.Errorf("%s is attached to a loop device still", disk)
	}
	_, pid, _ := strings.Cut(string(disk), "-")
	dirs, err := filepath.Glob(filepath.Join(baseDir(), dirPrefix+pid+"-*"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("the run left %v (%v), want one directory", dirs, err)
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// attached tells whether a loop device has a file of that name.
func attached(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && filepath.Base(strings.TrimSpace(string(b))) == name {
			return true
		}
	}
	return false
}

// TestVictim is the run that is killed.
func TestVictim(t *testing.T) {
	said := os.Getenv(victimEnv)
	if said == "" {
		t.Skip("it is for TestKilledRunLeavesNothing")
	}
	dir := newDir(t)
	img, err := format(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "shelf"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := newShelf(filepath.Join(dir, "shelf"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := mount(s, volatiledisk.FromImage(img), time.Second, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	child, err := rig.StartChild(filepath.Join(dir, "log"), nil, "sh", "-c", `while dd if=/dev/zero of="$0/file" bs=4096 count=10 conv=fsync; do :; done`, h.dir)
	if err != nil {
		t.Fatal(err)
	}
	flushes := h.plug.disk.Counters().Flushes
	until(func() bool { return h.plug.disk.Counters().Flushes > flushes })
	if err := os.WriteFile(said, []byte(h.name), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-child.Done():
	case <-time.After(rig.Patience):
	}
	child.Kill()
	t.Error("the run was not killed")
}

// until waits for something, for rig.Patience at the most.
func until(done func() bool) {
	for deadline := time.Now().Add(rig.Patience); !done() && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	}
}
