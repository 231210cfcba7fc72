// Command weir-boot runs in front of weir (weir.service) and decides which program a start runs: the one of the package, or of an upgrade that was fetched and verified. docs/upgrade.md has what it does.
//
// Exit codes: 0 done, 1 it failed, 2 wrong usage. A start does not look at them: `link`, `count` and `settle` must never keep one from running.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/weirstream/weir/agent/boot"
)

const usage = `weir-boot links the program that the service weir runs, in front of each start.

  weir-boot status [-o json]   what is linked and why, slots, floor, root document
  weir-boot reset              the program of the package runs from the next start on, until another upgrade asks
  weir-boot version

In the unit, in this order:

  weir-boot link               as root: verify and link
  weir-boot count              as the service's user: count the start of a program on trial
  weir-boot settle             as root: without a count, the program of before runs
  weir-boot ended UNIT         as root, when it has ended: a program on trial is started again whatever its exit code

In weir-reboot.service:

  weir-boot reboot             as root: takes the agent's request away, and reboots if an upgrade of the whole system asks for it
`

// version is set by the linker (Makefile).
var version = "devel"

// beyond is how much longer than its own limits a run may take: then a disk or a file system hangs, and what is linked runs.
const beyond = 30 * time.Second

func main() {
	debug.SetMemoryLimit(48 << 20)
	p := boot.Standard(os.Getenv, runtime.GOARCH)
	p.Say = say
	p.Wait = time.Sleep
	planted(&p)
	args := os.Args[1:]
	if len(args) == 0 || (len(args) > 1 && args[0] != "status" && args[0] != "ended") {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch args[0] {
	case "link", "settle":
		end := time.AfterFunc(p.Limit+boot.WaitMax+beyond, func() {
			say(3, "the disk hangs; what is linked runs")
			os.Exit(1)
		})
		defer end.Stop()
		run := p.Link
		if args[0] == "settle" {
			run = p.Settle
		}
		_, err = run(context.Background())
	case "count":
		err = p.Count()
	case "ended":
		if err := p.Note(os.Getenv); err != nil { // it is one gate less
			say(4, err.Error())
		}
		if p.Again(os.Getenv) && len(args) == 2 {
			say(6, "the program on trial has ended; it is started again, whatever its exit code")
			err = boot.StartAgain(args[1])
		}
	case "reboot":
		err = reboot(&p)
	case "status":
		err = status(&p, args[1:])
	case "reset":
		err = p.Reset()
	case "version":
		fmt.Println(version)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		say(3, err.Error())
		os.Exit(1)
	}
}

func reboot(p *boot.Places) error {
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	if err := p.MayReboot("/run/weir/reboot-request", string(bootID)); err != nil {
		return err
	}
	say(5, "the machine reboots for an upgrade")
	return boot.Reboot()
}

func status(p *boot.Places, args []string) error {
	s := p.Status()
	switch {
	case len(args) == 0:
		s.Print(os.Stdout)
		return nil
	case len(args) == 2 && args[0] == "-o" && args[1] == "json":
		b, err := json.MarshalIndent(s, "", "  ")
		if err == nil {
			_, err = fmt.Println(string(b))
		}
		return err
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

// say writes a line with its priority, as systemd's journal takes it (sd-daemon(3)).
func say(priority int, text string) {
	if os.Getenv("JOURNAL_STREAM") != "" {
		fmt.Fprintf(os.Stderr, "<%d>weir-boot: %s\n", priority, text)
		return
	}
	fmt.Fprintf(os.Stderr, "weir-boot: %s\n", text)
}
