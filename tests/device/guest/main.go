// Command guest is process 1 of the machine under test, in an initramfs of its own: it loads the drivers, brings the network up, and then starts systemd from the
// root disk (device.mode=systemd), or mounts the data disk and runs weir as a service manager would (device.mode=direct).
//
// What the test must know it writes to the console, one line each: "DEVICE seconds-since-boot what". When it can do no more it switches the machine off, so that
// the test sees at once that it ended.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	err := errors.Join(mountKernel(), openConsole())
	if err == nil {
		err = start()
	}
	say("failed: %v", err)
	powerOff()
}

func start() error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	o := parseOptions(string(line))
	if err := loadModules("/modules"); err != nil {
		return err
	}
	if err := networkUp("eth0", o.address); err != nil {
		return err
	}
	if o.mode == "systemd" {
		return switchRoot()
	}
	if err := mountData(); err != nil {
		return err
	}
	return runWeir(o)
}

// options of the kernel's command line.
type options struct {
	mode    string
	address string   // of eth0
	env     []string // of weir
	measure bool     // the resting agent is measured
}

func parseOptions(line string) options {
	o := options{mode: "direct", address: "10.0.2.15"}
	for _, word := range strings.Fields(line) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "device.mode":
			o.mode = value
		case "device.env": // NAME=VALUE; once for each
			o.env = append(o.env, value)
		case "device.measure":
			o.measure = true
		}
	}
	return o
}

// say writes a line for the test.
func say(format string, args ...any) {
	fmt.Printf("DEVICE %.2f %s\n", uptime().Seconds(), fmt.Sprintf(format, args...))
}

// uptime is since the kernel started.
func uptime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

func powerOff() {
	time.Sleep(200 * time.Millisecond) // the console is slow
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // there is nobody to tell
	select {}
}
