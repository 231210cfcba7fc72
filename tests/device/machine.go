package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// emulator is the program that is the machine.
const emulator = "qemu-system-aarch64"

// hardware of the machine under test.
type hardware struct {
	kernel, initramfs string
	root              string            // image of the root disk; "": there is none
	rootKept          bool              // what is written to it is there at the next boot; else it is as new at every one
	data              string            // unix socket of the NBD server behind the data disk
	forward           map[string]string // port of guestIP, and where on the host it leads
	append            string            // to the kernel's command line
	counted           bool              // time on the machine is what it executes, one instruction a nanosecond, and not what the host takes for it
}

// guestIP is where the machine reaches what is forwarded. It reaches nothing else: restrict=on.
const guestIP = "10.0.2.100"

// arguments of qemu. The processor is the one of a Raspberry Pi 4; no KVM, which another host could not have.
func (h *hardware) arguments(self string) []string {
	network := "user,id=net,restrict=on"
	for port, addr := range h.forward {
		network += fmt.Sprintf(",guestfwd=tcp:%s:%s-cmd:%s %s %s", guestIP, port, self, relayCommand, addr)
	}
	args := []string{
		"-M", "virt", "-cpu", "cortex-a72", "-m", "512", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", h.kernel, "-initrd", h.initramfs, "-append", "console=ttyAMA0 quiet loglevel=4 panic=-1 net.ifnames=0 " + h.append,
		"-netdev", network, "-device", "virtio-net-device,netdev=net",
		"-drive", "if=none,id=data,format=raw,cache=writeback,file=nbd+unix:///?socket=" + h.data, "-device", "virtio-blk-device,drive=data,serial=data",
	}
	if h.counted {
		args = append(args, "-accel", "tcg,thread=single", "-icount", "shift=0", "-smp", "1")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-smp", "2")
	}
	snapshot := map[bool]string{true: "off", false: "on"}[h.rootKept]
	if h.root != "" {
		args = append(args, "-drive", "if=none,id=root,format=raw,cache=unsafe,snapshot="+snapshot+",file="+h.root, "-device", "virtio-blk-device,drive=root,serial=root")
	}
	return args
}

// machine is one life of the hardware, from power on to power off.
type machine struct {
	child   *rig.Child
	console string // file with all that it prints
}

// powerOn starts the hardware; dir gets its console.
func (h *hardware) powerOn(dir string, boot int) (*machine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &machine{console: filepath.Join(dir, fmt.Sprintf("console-%03d.log", boot))}
	m.child, err = rig.StartChild(m.console, nil, emulator, h.arguments(self)...)
	return m, err
}

var (
	errEnded   = errors.New("the machine switched itself off")
	errFailed  = errors.New("the machine gave up")
	errTooLong = errors.New("the machine does not get on")
)

// said finds the lines of the machine's init and units: "DEVICE seconds what".
var said = regexp.MustCompile(`(?m)^DEVICE ([0-9.]+) ([^\r\n]*)\r?\n`)

// await waits until the machine says something that begins with what, and gives the line. It ends at once when the machine ends.
func (m *machine) await(ctx context.Context, what string, patience time.Duration) (string, error) {
	deadline := time.Now().Add(patience)
	for {
		ended := false
		select {
		case <-m.child.Done():
			ended = true
		default:
		}
		b, err := os.ReadFile(m.console)
		if err != nil {
			return "", err
		}
		for _, line := range said.FindAllStringSubmatch(string(b), -1) {
			switch {
			case strings.HasPrefix(line[2], what):
				return "at " + line[1] + " s: " + line[2], nil
			case strings.HasPrefix(line[2], "failed"):
				return "", fmt.Errorf("%w: %s\n%s", errFailed, line[2], tail(b))
			}
		}
		switch {
		case bytes.Contains(b, []byte("You are in emergency mode")):
			return "", fmt.Errorf("%w: systemd wants help\n%s", errFailed, tail(b))
		case ended:
			return "", fmt.Errorf("%w before it said %q:\n%s", errEnded, what, tail(b))
		case time.Now().After(deadline):
			return "", fmt.Errorf("%w: %s without %q:\n%s", errTooLong, patience, what, tail(b))
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-m.child.Done():
		case <-time.After(consolePoll):
		}
	}
}

const consolePoll = 50 * time.Millisecond

// tail is the end of a console.
func tail(b []byte) string {
	return string(bytes.ReplaceAll(b[max(0, len(b)-8000):], []byte("\r"), nil))
}

// powerOff is what a power cut does to the processor: it stops. The data disk must have lost its power before.
func (m *machine) powerOff() { m.child.Kill() }
