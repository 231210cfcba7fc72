// Package upgrade decides how another program takes over: which state an upgrade is in and what comes next (pure), and keeps its record in state_dir/upgrade.
// DESIGN.md has the states, and what a crash in each leads to.
package upgrade

import (
	"errors"
	"fmt"
	"slices"
)

// State of an upgrade. Idle, Committed, RolledBack and Failed are at rest.
type State string

// The states, in their order.
const (
	Idle       State = ""
	Accepted   State = "accepted"
	Fetching   State = "fetching"
	Staged     State = "staged"
	Draining   State = "draining"
	Saved      State = "saved"
	Switched   State = "switched"
	Probation  State = "probation"
	Committing State = "committing"
	Committed  State = "committed"
	Rollback   State = "rollback"
	Restoring  State = "restoring"
	RolledBack State = "rolled back"
	Failed     State = "failed"
)

var states = []State{Idle, Accepted, Fetching, Staged, Draining, Saved, Switched, Probation, Committing, Committed, Rollback, Restoring, RolledBack, Failed}

const (
	recordFormat = 1
	// rejectedMost is how many digests are remembered: more than a gateway has ever been sent before somebody looked.
	rejectedMost = 32
)

// Slot names where a program lies. Factory is what the package or the image brought; it is never written.
type Slot string

// The slots of the backend self.
const (
	Factory Slot = "factory"
	SlotA   Slot = "a"
	SlotB   Slot = "b"
)

// Target is the program that an upgrade installs, as the signed manifest has it.
type Target struct {
	Release          string `json:"release"` // sha256 of the manifest's payload, hex
	Version          string `json:"version"`
	Backend          string `json:"backend"`
	SHA256           string `json:"sha256"` // hex
	Bytes            int64  `json:"bytes"`
	SecureVersion    uint64 `json:"secure_version"`
	MinSecureVersion uint64 `json:"min_secure_version"`
}

// Saving is S of one pipeline, or of a region of one.
type Saving struct {
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Plan       string `json:"plan"` // hash, hex
	Savepoint  string `json:"savepoint,omitempty"`
	SHA256     string `json:"sha256,omitempty"` // of the savepoint's file, hex
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Position   uint64 `json:"position,omitempty"`
	Uploaded   bool   `json:"uploaded,omitempty"`
	Live       bool   `json:"live,omitempty"` // a sink is not held: going back is to the newest checkpoint, not to S
	Ends       []End  `json:"ends,omitempty"` // of the outbox at S
}

// End is the last number that a stream had given out.
type End struct {
	UID string `json:"uid"`
	Seq uint64 `json:"seq"`
}

// Record is all that a start needs to know, of whichever program, and of the helper.
type Record struct {
	Format int    `json:"format"` // of this record: 1
	Number uint64 `json:"number"` // of the upgrade
	State  State  `json:"state"`

	Scope   string `json:"scope,omitempty"` // of the document that asked: rollout/CHANNEL, device/GATEWAY …
	Serial  uint64 `json:"serial,omitempty"`
	Command string `json:"command,omitempty"` // its id
	Rollout string `json:"rollout,omitempty"`
	Expires int64  `json:"expires_ms,omitempty"` // Unix ms: behind it nobody stops his pipelines for it; 0: never
	Target  Target `json:"target"`
	// From is the program that runs, or ran before.
	From    Target `json:"from"`
	Active  Slot   `json:"active"`  // what From runs from
	Standby Slot   `json:"standby"` // what Target is put into

	UploadS   bool   `json:"upload_savepoints,omitempty"` // required before the switch
	Discard   bool   `json:"discard_state,omitempty"`
	Duplicate bool   `json:"allow_duplicates,omitempty"`
	Probation int64  `json:"probation_ms,omitempty"`
	Tries     int    `json:"tries,omitempty"`           // starts that the new program has left
	Again     bool   `json:"activated_again,omitempty"` // the old program has found itself in Switched once
	Began     Moment `json:"began"`                     // the state
	Minor     uint32 `json:"minor,omitempty"`           // incarnation that the target runs under

	Savings  []Saving `json:"savings,omitempty"`
	Contact  bool     `json:"contact,omitempty"` // the gateway had contact in the 24 h before the switch
	Offline  bool     `json:"committed_offline,omitempty"`
	Away     []string `json:"away,omitempty"`     // sources and sinks that were away before the switch
	Why      string   `json:"why,omitempty"`      // it failed or went back
	Cause    Cause    `json:"cause,omitempty"`    // the same, for who counts
	Rejected []string `json:"rejected,omitempty"` // digests that are not tried again; the newest 32
	Floor    uint64   `json:"secure_floor,omitempty"`
	// Before: Standby still holds the program before From, which was committed here; it can be gone back to when a boot loader falls back to it.
	Before bool `json:"standby_is_before,omitempty"`
	// Unreverted: the backend could not be told to run the old slot; it is told again until it can be.
	Unreverted bool `json:"unreverted,omitempty"`
	// Rescue: this upgrade was asked for when no slot could be verified. Active is Factory and runs no pipeline, whatever comes of it.
	Rescue bool `json:"rescue,omitempty"`
}

// Moment is a time that is measured since the boot: the clock may be wrong. Of another boot only its order is known.
type Moment struct {
	Boot string `json:"boot,omitempty"` // /proc/sys/kernel/random/boot_id
	Ns   int64  `json:"ns,omitempty"`   // CLOCK_BOOTTIME
}

// Resting tells that no upgrade is under way.
func (r *Record) Resting() bool {
	return r.State == Idle || r.State == Committed || r.State == RolledBack || r.State == Failed
}

// Runs is the slot whose program is to run. Before the first upgrade it is Factory.
func (r *Record) Runs() Slot {
	switch r.State {
	case Switched, Probation, Committing, Committed:
		return r.Standby
	}
	if r.Active == "" {
		return Factory
	}
	return r.Active
}

// Holds tells that S is held (RULES 22): it counts as retained, and the journal keeps what lies behind it. From Draining on: S is there before the record says so.
func (r *Record) Holds() bool {
	switch r.State {
	case Draining, Saved, Switched, Probation, Committing, Rollback, Restoring:
		return true
	}
	return r.Rescue && r.State != Committed && len(r.Savings) > 0 // of the upgrade that the rescue cut short
}

// Releases tells that results may leave, if the program that asks is the one that Runs names.
func (r *Record) Releases() bool {
	switch r.State {
	case Saved, Switched, Probation, Committing, Rollback, Restoring:
		return false
	}
	return true
}

// Check tells what a record says that no Next has ever written. Whoever reads one that another user may have written asks it first; Load and Read do.
func (r *Record) Check() error {
	known := slices.Contains(states, r.State)
	switch {
	case r.Format != 0 && r.Format != recordFormat:
		return fmt.Errorf("its format is %d, this program knows %d", r.Format, recordFormat)
	case !known:
		return fmt.Errorf("it is in state %q, which there is not", r.State)
	case r.Tries < 0 || r.Tries > triesMost:
		return fmt.Errorf("it leaves %d tries, which is not 0 to %d", r.Tries, triesMost)
	case r.State != Idle && (r.Standby == "" || r.Standby == Factory || r.Standby == r.Active):
		return fmt.Errorf("it puts a program into slot %q, and %q is the one that runs", r.Standby, r.Active)
	case r.State != Idle && r.Active == "":
		return errors.New("it names no slot that runs")
	case r.State != Idle && !isDigest(r.Target.SHA256):
		return fmt.Errorf("its target has the digest %.80q", r.Target.SHA256)
	case len(r.Rejected) > rejectedMost:
		return fmt.Errorf("it has %d rejected digests, at most %d are kept", len(r.Rejected), rejectedMost)
	}
	return nil
}

// isDigest: 64 digits, as hexadecimal has them in lower case.
func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
