package statedir

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// stateOfAnother tells a process of this test where the state_dir is that it is to work on.
const stateOfAnother = "WEIR_TEST_STATE_OF_ANOTHER"

// TestRootOnTheStateOfAnother: what root does to the state_dir of a service, a repair or a start by hand, is done as the service's user: a file of root's in it would keep the service from starting.
func TestRootOnTheStateOfAnother(t *testing.T) {
	if dir := os.Getenv(stateOfAnother); dir != "" {
		workAsOwner(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED HERE: needs root, to give a directory away")
	}
	const somebody = 65534
	dir, err := os.MkdirTemp("", "weir") // t.TempDir lies below one that others cannot enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, somebody, somebody); err != nil {
		t.Skip("NOT TESTED HERE: a directory cannot be given away: ", err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), stateOfAnother+"="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip("NOT TESTED HERE: root may not change who it is")
	}
	owners := map[uint32]int{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		owners[st.Uid]++
		if st.Uid != somebody || st.Gid != somebody {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil || owners[somebody] < 4 {
		t.Errorf("%v, %v", owners, err)
	}
}

func workAsOwner(t *testing.T, dir string) {
	if syscall.Setgroups([]int{0, 4}) != nil {
		t.Skip("root may not change who it is")
	}
	l, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if os.Geteuid() != l.User || l.User == 0 || os.Getegid() != l.User {
		t.Fatalf("it is %d:%d, and says %d", os.Geteuid(), os.Getegid(), l.User)
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads: %v, %v", threads, err)
	}
	for _, name := range threads { // groups are a thread's own
		b, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(b), fmt.Sprintf("\nGroups:\t%d \n", l.User)) {
			t.Errorf("%s: it is in other groups still: %v\n%s", name, err, b)
		}
	}
	if err := disk.WriteFileAtomic(disk.OS, filepath.Join(dir, "file"), []byte("x")); err != nil {
		t.Error(err)
	}
	if err := disk.OS.MkdirAll(filepath.Join(dir, "a", "b")); err != nil {
		t.Error(err)
	}
	if _, err := os.ReadFile("/proc/self/io"); err != nil {
		t.Errorf("the kernel does not tell it any more what it writes: %v", err)
	}
}

// TestOwnDirectoryChangesNobody: root on its own state_dir, and on one that is not there yet, stays root.
func TestOwnDirectoryChangesNobody(t *testing.T) {
	before := os.Geteuid()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if user := becomeOwner(dir); user != 0 || os.Geteuid() != before {
			t.Errorf("%s: it has become %d", dir, user)
		}
	}
}
