// Package upgrade decides how another program takes over: which state an upgrade is in and what comes next (pure), and keeps its record in state_dir/upgrade.
// DESIGN.md has the states, and what a crash in each leads to.
package upgrade

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
	Rejected []string `json:"rejected,omitempty"` // digests that are not tried again; the newest 32
	Floor    uint64   `json:"secure_floor,omitempty"`
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

// Runs is the slot whose program is to run. It is what the helper links.
func (r *Record) Runs() Slot {
	switch r.State {
	case Switched, Probation, Committing, Committed:
		return r.Standby
	}
	return r.Active
}
