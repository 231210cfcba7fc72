package boot

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
)

// Places are where things lie, and how long a run may take.
type Places struct {
	State       string // state_dir: belongs to the agent's user, and nothing in it is trusted
	Dir         string // the helper's own: belongs to root
	Run         string // the same in memory
	Counted     string // what Count leaves for Link: in memory, of the agent's user
	Factory     string // directory of the program that the package or the image brought
	Provisioned string // root document that the gateway was given
	Arch        string // as GOARCH
	Start       string // names this start: systemd's INVOCATION_ID
	Owner       int    // who alone may write to Dir, Run and Provisioned: root, 0
	// Limit is how long copying and verifying may take, before the program that was linked before runs.
	Limit time.Duration
	// Say gets what an operator is to read, with syslog's priority. nil: nobody does.
	Say func(priority int, text string)
	// Wait waits in front of starts that follow one another. nil: there is no wait.
	Wait func(time.Duration)

	hook    func(step string) // tests kill the run there
	planted fault             // tests show that they would find it
}

// fault is a mistake that a test plants.
type fault string

const (
	faultVerifyFirst fault = "what was fetched is verified, then copied"
	faultFollow      fault = "links are followed"
	faultNoSettle    fault = "a start that was not counted runs"
	faultNoFloor     fault = "the floor is not looked at"
	faultNoDigest    fault = "what is in a slot is not hashed again"
	faultNoSync      fault = "no-sync" // of a slot's program
)

// The priorities of Say.
const (
	failure = 3
	warning = 4
	notice  = 6
)

func (p *Places) say(priority int, format string, args ...any) {
	if p.Say != nil {
		p.Say(priority, fmt.Sprintf(format, args...))
	}
}

// The names in Places.Dir.
const (
	slotsDir    = "slots"
	programFile = "weir"
	aboutFile   = "about.json"
	aboutCopy   = "about.copy"
	newFile     = ".new" // a copy that is not verified
	linkFile    = "current"
	floorFile   = "floor"
	floorCopy   = "floor.copy"
	rootFile    = "root.json"
	heldFile    = "held.json"
)

// The names in Places.Run.
const (
	bootedFile   = "booted"
	refusedFile  = "refused"
	rescueFile   = "rescue"
	endedFile    = "ended"
	verifiedFile = "verified.json"
	pacedFile    = "starts.json"
)

// Standard are the places of the service. env gives the environment: STATE_DIRECTORY and INVOCATION_ID are systemd's, WEIR_BOOT_STATE is an operator's whose state_dir is another.
func Standard(env func(string) string, arch string) Places {
	p := Places{State: "/var/lib/weir", Dir: "/var/lib/weir-boot", Run: "/run/weir-boot", Counted: "/run/weir/counted", Factory: "/usr/bin", Provisioned: "/etc/weir/fleet/root.json",
		Arch: arch, Start: env("INVOCATION_ID"), Limit: 4 * time.Minute, planted: plantedFault()}
	if first, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); filepath.IsAbs(first) {
		p.State = first
	}
	if own := env("WEIR_BOOT_STATE"); filepath.IsAbs(own) {
		p.State = own
	}
	return p
}

// slot is the directory of a slot.
func (p *Places) slot(s upgrade.Slot) string {
	if s == upgrade.Factory {
		return p.Factory
	}
	return filepath.Join(p.Dir, slotsDir, string(s))
}

// program is the file of a slot.
func (p *Places) program(s upgrade.Slot) string { return filepath.Join(p.slot(s), programFile) }

// slotOf is the slot whose directory that is; ok false: none.
func (p *Places) slotOf(dir string) (s upgrade.Slot, ok bool) {
	for _, s := range []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB} {
		if filepath.Clean(dir) == p.slot(s) {
			return s, true
		}
	}
	return "", false
}

// known tells that a record names a slot that there is. A record is a stranger's: its slot must never become part of a path unasked.
func known(s upgrade.Slot) bool {
	return s == upgrade.Factory || s == upgrade.SlotA || s == upgrade.SlotB
}
