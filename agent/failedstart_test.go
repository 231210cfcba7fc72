package agent

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk/disktest"
)

// everyWrite counts what changes something on a disk, and fails nothing.
var everyWrite = disktest.Pressure{Name: "none", Hits: func(o disktest.Op) bool { return o != disktest.OpOpen }}

// tree is all that lies below a directory, as far as a look that writes nothing can tell; times of access are no part of it.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var s strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&s, "%s %s %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&s, " %x", sha256.Sum256(b))
		}
		s.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// listenOn binds until the test ends.
func listenOn(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// inTime tells when a first life is over its time.
func inTime() (late func() bool) {
	deadline := time.Now().Add(pressedPatience)
	return func() bool { return time.Now().After(deadline) }
}

// failsToStart tries three starts, and tells what they wrote: operations, and whether anything is another than before.
func (p *pressed) failsToStart(t *testing.T, want func(error) bool) (ops []string, same bool) {
	t.Helper()
	p.strain.Fail(everyWrite, 0, 0)
	before := tree(t, p.dir+"/state")
	for range 3 {
		a, err := New(p.parse(), p.options)
		if err == nil {
			a.Close()
		}
		if err == nil || !want(err) {
			t.Fatalf("a start that must fail: %v", err)
		}
	}
	return p.strain.Ops(), tree(t, p.dir+"/state") == before
}

// TestFailedStartWritesNothing: a start that cannot succeed is tried again for ever, by the service manager, and wears no flash: not one operation that changes the disk.
func TestFailedStartWritesNothing(t *testing.T) {
	d := press(t)
	state := func(p *pressed, name string) string { return filepath.Join(p.dir, "state", name) }
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, p *pressed)
		want  func(error) bool
		late  bool // a start that listens late has to be found by it
	}{
		{"the socket is in use", func(t *testing.T, p *pressed) {
			p.text += "api: {socket: " + filepath.Join(p.dir, "s") + "}\n"
			listenOn(t, "unix", filepath.Join(p.dir, "s"))
		}, func(err error) bool { return errors.Is(err, api.ErrInUse) }, true},
		{"the socket's path is of a file", func(t *testing.T, p *pressed) {
			if err := os.WriteFile(state(p, "weir.sock"), []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return errors.Is(err, api.ErrInUse) }, true},
		{"the socket's directory is missing", func(_ *testing.T, p *pressed) {
			p.text += "api: {socket: " + filepath.Join(p.dir, "none", "s") + "}\n"
		}, func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, true},
		{"the port of the metrics is in use", func(t *testing.T, p *pressed) {
			p.text += fmt.Sprintf("metrics: {listen: %q}\n", listenOn(t, "tcp", "127.0.0.1:0").Addr())
		}, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }, true},
		{"the registry is damaged", func(t *testing.T, p *pressed) {
			if err := os.WriteFile(state(p, "pipelines.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return strings.Contains(err.Error(), "read registry") }, false},
		{"the registry names no identity", func(t *testing.T, p *pressed) {
			if err := os.WriteFile(state(p, "pipelines.json"), []byte(`{"gateway":"test","pipelines":{"p":"none"}}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return strings.Contains(err.Error(), "read registry") }, false},
		{"another board", func(_ *testing.T, p *pressed) {
			p.text = strings.Replace(p.text, "board_serial: one", "board_serial: two", 1)
		}, func(err error) bool { return errors.Is(err, identity.ErrOtherBoard) }, false},
		{"another process holds state_dir", func(t *testing.T, p *pressed) {
			l, err := statedir.Acquire(p.dir + "/state")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, func(err error) bool { return errors.Is(err, statedir.ErrLocked) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPressed(t, d, "log")
			p.text = "board_serial: one\n" + p.text
			p.lives(t, inTime())
			c.spoil(t, p)
			if ops, same := p.failsToStart(t, c.want); len(ops) > 0 || !same {
				t.Errorf("three starts that failed wrote: %q; all is as it was: %t", ops, same)
			}
			p.options.late = true
			if ops, _ := p.failsToStart(t, c.want); c.late && len(ops) < 3 {
				t.Errorf("the planted fault, listening when all is recovered, was not found: %q", ops)
			}
		})
	}
}

// TestFailedStartOnAReadOnlyDisk: it ends at its first write, whichever part that is of. A first start has to write as well.
func TestFailedStartOnAReadOnlyDisk(t *testing.T) {
	d := press(t)
	for _, used := range []bool{true, false} {
		p := newPressed(t, d, "log")
		if used {
			p.lives(t, inTime())
		}
		p.strain.Fail(disktest.ReadOnly, 1, -1)
		for range 3 {
			a, err := New(p.parse(), p.options)
			if err == nil {
				a.Close()
			}
			if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), p.dir+"/state") {
				t.Errorf("a start on a read-only disk, used before: %t: %v", used, err)
			}
		}
		if n, by := p.strain.Failed(); n > 3*readOnlyTries {
			t.Errorf("three starts tried %d writes: %v", n, by)
		}
	}
}

// readOnlyTries bounds the writes that one start tries on a read-only disk: of a part that goes on without, such as checkpoints that are opened early, and of the one that ends it.
const readOnlyTries = 4
