package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Child is a process that a test started; only such are ever signalled. The kernel kills it when the test process dies.
type Child struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	once sync.Once
	err  error
}

// StartChild runs a program; its output is appended to the file logName.
func StartChild(logName string, env []string, name string, args ...string) (*Child, error) {
	return startChild(nil, logName, env, name, args...)
}

// startChildAs runs a program as another user.
func startChildAs(cred *syscall.Credential, logName, name string, args ...string) (*Child, error) {
	return startChild(cred, logName, nil, name, args...)
}

func startChild(cred *syscall.Credential, logName string, env []string, name string, args ...string) (*Child, error) {
	log, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	c := &Child{cmd: exec.Command(name, args...), log: log, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: cred}
	if err := c.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the process; Wait waits for it
		c.err = c.cmd.Wait()
		c.log.Close()
		close(c.done)
	}()
	return c, nil
}

// PID is the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Killed tells whether it has ended by SIGKILL.
func (c *Child) Killed() bool {
	select {
	case <-c.done:
	default:
		return false
	}
	w, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// Kill is kill -9; it returns when the process is gone.
func (c *Child) Kill() {
	c.cmd.Process.Kill()
	<-c.done
}

// ErrStillRunning is returned by Stop when the process did not end in time; it was then killed.
var ErrStillRunning = errors.New("did not end in time")

// Stop sends SIGTERM and waits; after the wait it kills.
func (c *Child) Stop(wait time.Duration) error {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return c.err
	case <-time.After(wait):
		c.Kill()
		return fmt.Errorf("stop process %d: %w", c.PID(), ErrStillRunning)
	}
}

// Usage is the CPU time and peak memory of an ended process.
func (c *Child) Usage() (cpu time.Duration, peakBytes int64) {
	<-c.done
	state := c.cmd.ProcessState
	if r, ok := state.SysUsage().(*syscall.Rusage); ok {
		peakBytes = int64(r.Maxrss) << 10
	}
	return state.UserTime() + state.SystemTime(), peakBytes
}

// Resident is how much memory the running process has, in bytes: what is its own, and the mapped pages of files.
func (c *Child) Resident() (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", c.PID(), err)
	}
	for l := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("memory of process %d: %w", c.PID(), errors.ErrUnsupported)
}
