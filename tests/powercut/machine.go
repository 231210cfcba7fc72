//go:build !arm && !386

package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// diskBytes is room enough for everything a round writes; what is not written takes no memory.
const diskBytes = 512 << 20

// format makes an ext4 as a gateway has it, on a disk that was never used.
func format(dir string) (*volatiledisk.Image, error) {
	name := filepath.Join(dir, "fresh.ext4")
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("make a file for ext4: %w", err)
	}
	defer os.Remove(name)
	defer f.Close()
	if err := f.Truncate(diskBytes); err != nil {
		return nil, fmt.Errorf("make a file for ext4: %w", err)
	}
	cmd := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", name)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	d, err := volatiledisk.Load(f, diskBytes)
	if err != nil {
		return nil, err
	}
	return d.Image(volatiledisk.Cut{}), nil
}

// host is a disk that is mounted.
type host struct {
	shelf *shelf
	plug  *plug
	name  string // on the shelf
	dir   string // where it is mounted
	up    bool
}

// mount plugs a disk in and mounts its ext4 on a new directory below base. options are those of mount -o for ext4.
func mount(s *shelf, disk *volatiledisk.Disk, flushTakes time.Duration, base, options string) (*host, error) {
	dir, err := os.MkdirTemp(base, "m")
	if err != nil {
		return nil, fmt.Errorf("make a mount point: %w", err)
	}
	h := &host{shelf: s, plug: &plug{disk: disk, flushTakes: flushTakes, off: make(chan struct{})}, dir: dir}
	h.name = s.put(h.plug)
	device, err := attach(filepath.Join(s.dir, h.name))
	if err != nil {
		h.drop()
		return nil, err
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), dir, "ext4", unix.MS_NOATIME, options); err != nil {
		h.drop()
		return nil, fmt.Errorf("mount ext4 with %q: %w", options, err)
	}
	h.up = true
	return h, nil
}

// drop forgets a disk that is not mounted.
func (h *host) drop() {
	h.shelf.remove(h.name)
	os.Remove(h.dir)
}

// die kills the process on a disk that is cut. Only then do its requests fail that wait for an answer: it never sees one.
func (h *host) die(process *rig.Child) {
	_ = unix.Kill(process.PID(), unix.SIGKILL) // it may have ended by itself
	h.plug.switchOff()
}

// unmountTries bounds how long a mount may be in use after its processes have ended.
const unmountTries = 200

// close unmounts; the loop device goes with it.
func (h *host) close() error {
	if !h.up {
		return nil
	}
	h.up = false
	defer h.drop()
	for range unmountTries {
		err := unix.Unmount(h.dir, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", h.dir, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.plug.disk.Cut(volatiledisk.Cut{})
	h.plug.switchOff()
	return errors.Join(fmt.Errorf("%s is in use", h.dir), unix.Unmount(h.dir, unix.MNT_DETACH))
}
