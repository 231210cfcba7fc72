package systemd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/tests/rig"
)

// machine is a booted Debian.
type machine struct {
	dir   string // its root, as the test sees it
	init  *exec.Cmd
	group []string // its cgroups, one of each boot; none: that of the test
	log   *os.File
}

// boot unpacks a root and starts systemd in it.
func boot(archive, dir string) (m *machine, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: the test is not root", errHere)
	}
	m = &machine{dir: filepath.Join(dir, "root")}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.Command("tar", "--numeric-owner", "-C", m.dir, "-xf", archive).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack the root: %w: %s", err, last(out, 300))
	}
	if m.log, err = os.Create(filepath.Join(dir, "boot.log")); err != nil {
		return nil, err
	}
	m.init = exec.Command("/bin/sh", "init.sh", m.dir)
	m.init.Stdout, m.init.Stderr = m.log, m.log
	m.init.SysProcAttr = namespaces()
	closeGroup := m.ownGroup()
	err = m.start()
	closeGroup()
	if err != nil {
		m.stop()
		return nil, fmt.Errorf("%w: %w", errHere, err)
	}
	return m, nil
}

// namespaces are those of a machine.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
	}
}

// start starts init and waits until it has booted. The thread that starts it must live as long (Pdeathsig), and be no thread that a test locks.
func (m *machine) start() error {
	started := make(chan error, 1)
	go func() { // ends with the machine
		runtime.LockOSThread()
		err := m.init.Start()
		started <- err
		if err == nil {
			m.init.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	state := ""
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		out, _ := m.try("systemctl", "is-system-running")
		if state = strings.TrimSpace(out); state == "running" || state == "degraded" {
			return nil
		}
		if syscall.Kill(m.init.Process.Pid, 0) != nil {
			break
		}
	}
	said, _ := os.ReadFile(m.log.Name())
	return fmt.Errorf("systemd did not come up: %s: %s", state, last(said, 600))
}

// ownGroup gives the machine a cgroup below that of the test, so that it leaves none behind among those of others.
func (m *machine) ownGroup() (close func()) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return func() {}
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		path, v2 := strings.CutPrefix(line, "0::")
		if !v2 {
			continue
		}
		for _, mounted := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if _, err := os.Stat(filepath.Join(mounted, "cgroup.procs")); err != nil {
				continue
			}
			group := filepath.Join(mounted, path, fmt.Sprintf("weir-test-%d-%d", os.Getpid(), len(m.group)))
			if os.Mkdir(group, 0o755) != nil {
				continue
			}
			m.group = append(m.group, group)
			if fd, err := unix.Open(group, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				m.init.SysProcAttr.UseCgroupFD, m.init.SysProcAttr.CgroupFD = true, fd
				return func() { unix.Close(fd) }
			}
		}
	}
	return func() {}
}

// stop kills init, and with it all that ran below it.
func (m *machine) stop() {
	if m.init.Process != nil {
		m.init.Process.Kill()
		for range 100 { // the goroutine of start reaps it
			if syscall.Kill(m.init.Process.Pid, 0) != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	m.log.Close()
	var groups []string
	for _, group := range m.group {
		filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
	}
	for i := len(groups) - 1; i >= 0; i-- {
		for range 50 { // until the last process is gone
			if os.Remove(groups[i]) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (m *machine) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(m.init.Process.Pid), "-a", "--", name}, args...)...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	return c
}

// said runs a command and gives what it said on both of its ways. A machine that goes down stops all that runs in it, nsenter then stops itself, does not see its child's end, and the machine's process 1 would wait for that: it is
// told to go on, again and again.
func said(c *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // ends with the command
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-tick.C:
				c.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
			case <-ended:
				tick.Stop()
				return
			}
		}
	}()
	err := c.Wait()
	close(ended)
	return out.Bytes(), err
}

// try runs a program in the machine; out is what it said on both of its ways.
func (m *machine) try(name string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
	defer cancel()
	b, err := said(m.command(ctx, name, args...))
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, last(b, 2000))
	}
	return string(b), err
}

// run is try, for what has to work.
func (m *machine) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := m.try(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// path is where a file of the machine is for the test. What lies in /run or /dev is not seen this way.
func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) write(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(m.path(name), []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// listen opens a port on the machine's loopback, for a server that the test runs.
func (m *machine) listen(t *testing.T) net.Listener {
	t.Helper()
	return m.listenAt(t, 0)
}
