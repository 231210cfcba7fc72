package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func mountKernel() error {
	for _, m := range []struct{ source, dir, kind string }{{"proc", "/proc", "proc"}, {"sys", "/sys", "sysfs"}, {"dev", "/dev", "devtmpfs"}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return nil
}

// openConsole makes the console what is read and written: an initramfs has no device when the kernel starts process 1.
func openConsole() error {
	c, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Dup3(int(c.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// loadModules loads the modules of a directory in the order of their names: each needs those before it.
func loadModules(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		image, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		if err := unix.InitModule(image, ""); err != nil && err != unix.EEXIST {
			return fmt.Errorf("load %s: %w", f.Name(), err)
		}
	}
	return nil
}

// await polls for what a driver makes.
func await(what string, there func() bool) error {
	for range 1000 {
		if there() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s did not come", what)
}

func networkUp(name, address string) error {
	if err := await(name, func() bool { _, err := os.Stat("/sys/class/net/" + name); return err == nil }); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	set := func(device string, request uint, fill func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(device)
		if err != nil {
			return err
		}
		if err := fill(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, request, r); err != nil {
			return fmt.Errorf("set up %s: %w", device, err)
		}
		return nil
	}
	ip := func(text string) func(*unix.Ifreq) error {
		var b [4]byte
		_, err := fmt.Sscanf(text, "%d.%d.%d.%d", &b[0], &b[1], &b[2], &b[3])
		return func(r *unix.Ifreq) error {
			if err != nil {
				return err
			}
			return r.SetInet4Addr(b[:])
		}
	}
	up := func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }
	for _, do := range []func() error{
		func() error { return set("lo", unix.SIOCSIFFLAGS, up) },
		func() error { return set(name, unix.SIOCSIFADDR, ip(address)) },
		func() error { return set(name, unix.SIOCSIFNETMASK, ip("255.255.255.0")) },
		func() error { return set(name, unix.SIOCSIFFLAGS, up) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// disk is the device of a serial number: the names vda, vdb depend on who is found first.
func disk(serial string) (device string, err error) {
	err = await("disk "+serial, func() bool {
		names, _ := filepath.Glob("/sys/block/*/serial")
		i := slices.IndexFunc(names, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && string(bytes.TrimSpace(b)) == serial
		})
		if i >= 0 {
			device = "/dev/" + strings.Split(names[i], "/")[3]
		}
		return i >= 0
	})
	return device, err
}

const dataDir = "/data"

// mountData: a file system that is found broken ends the machine, so that nobody goes on with it.
func mountData() error {
	device, err := disk("data")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(device, dataDir, "ext4", unix.MS_NOATIME, "errors=panic"); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

// switchRoot becomes systemd of the root disk.
func switchRoot() error {
	device, err := disk("root")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/new", 0o755); err != nil {
		return err
	}
	if err := unix.Mount(device, "/new", "ext4", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	say("systemd")
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, "/new"+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := os.Chdir("/new"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"TERM=linux", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}
