package boot

import (
	"github.com/weirstream/weir/agent/upgrade"
)

// upgrade.Boot decides which slot a start runs, from the record and from which slots can be run. What comes before it is here: when the factory program runs whatever the record asks for.

// facts are what overrule goes by.
type facts struct {
	record   *upgrade.Record
	held     *held // the factory program runs in place of this
	unknown  bool  // the helper's directory has never had a slot: it is new
	replaced bool  // the factory program is another than when the slot that is wanted was filled
}

// held says that the factory program runs although the record asks for a slot, until another upgrade asks.
type held struct {
	Number uint64 `json:"number"` // of the upgrade
	SHA256 string `json:"sha256"` // of its program
	Why    string `json:"why"`
	Always bool   `json:"always,omitempty"` // whatever state the upgrade is in: an operator asked
}

func (h *held) holds(r *upgrade.Record) bool {
	return h != nil && h.Number == r.Number && h.SHA256 == r.Target.SHA256 && (h.Always || r.Resting())
}

// overrule is pure: why the factory program runs; "": the record decides. keep is to be durable before it is linked.
func overrule(f facts) (why string, keep *held) {
	r := f.record
	switch {
	case f.held.holds(r):
		return f.held.Why, nil
	case r.Runs() == upgrade.Factory || !r.Resting():
		return "", nil
	case f.unknown:
		why = "the record of upgrades is from before the helper's directory was made"
	case f.replaced:
		why = "the package's program was replaced since the upgrade"
	default:
		return "", nil
	}
	return why, &held{Number: r.Number, SHA256: r.Target.SHA256, Why: why}
}

// foreign tells that a record is of a backend whose slots are whole systems: this helper runs the factory program of the one that was booted.
func foreign(r *upgrade.Record) bool {
	return r.State != upgrade.Idle && r.Target.Backend != "" && r.Target.Backend != backendSelf
}

// onStandby: the record wants the new program.
func onStandby(s upgrade.State) bool { return onTrial(s) || s == upgrade.Committed }

// onTrial: a start of the new program runs only when it was counted before, and the old one can still take over.
func onTrial(s upgrade.State) bool {
	return s == upgrade.Switched || s == upgrade.Probation || s == upgrade.Committing
}
