package channel

import (
	"context"
	"errors"

	"github.com/weirstream/weir/fleet/document"
)

// Acts is what a gateway can do, and what it says of itself. Its methods are called by one goroutine each at a time: Do, Resume and Settled by one, the others by another.
type Acts interface {
	// State is what the gateway says of itself; Gateway, Channel, Root, Serials, Refused and AtMs are filled in by the caller.
	State() document.State
	// Do carries a command out, once: when it is called the order is durable. An outcome without a result: it is under way, and Resume will tell.
	Do(ctx context.Context, o *Order) Outcome
	// Resume tells what became of a command that was begun: by a process that ended in it (Order.Before), or by this one, when Do gave no result. Commands of Repeats are not asked for with Resume behind a crash: they are done again.
	Resume(ctx context.Context, o *Order) Outcome
	// Settled is called when a result is durable, before it is sent. It is repeated behind a crash, and harmless then.
	Settled(o *Order) error
	// Upgrade hands a verified release to the upgrader. Repeating it for the same Scope and Serial, or the same Rollout and release, is harmless. ErrLater: ask again; another error: it will not be.
	Upgrade(ctx context.Context, h *Handover) error
	// Upgraded tells what became of an upgrade that a command asked for; false: the upgrader knows nothing of it.
	Upgraded(o *Order) (Outcome, bool)
	// Halt gives an upgrade up that this roll-out asked for, if it is under way and not committed.
	Halt(rollout, why string)
	// Fenced tells why this device no longer speaks for its gateway; nil: it does.
	Fenced() error
}

// ErrLater: it is not to be had now.
var ErrLater = errors.New("not now")

// Order is a command to be carried out.
type Order struct {
	document.Command
	Scope  string
	Since  uint64 // of the role that signed it: with Scope and Serial, what the order is known by
	Before bool   // an earlier process began it
}

// Outcome is what came of one. Result "": nothing yet.
type Outcome struct {
	Result string // document.ResultDone …
	Detail string
	Files  []string
}

// Handover is a release that is to be installed.
type Handover struct {
	Scope   string // of the document that asked
	Since   uint64 // of the role that signed it
	Serial  uint64 // of the document, or of the command
	Command string // its id; "": a roll-out asked
	Rollout string // its id; "": a command asked
	Policy  document.Policy
	// ExpiresMs: no pipeline is stopped for it behind that time; 0: whenever.
	ExpiresMs int64
	SHA256    string // of the release's payload, hex
	Release   *document.Release
	Envelope  []byte
}

// Repeats tells that a command may be done again when a crash cut it short: the second time changes nothing that the first did.
func Repeats(c *document.Command) bool {
	switch c.Do {
	case document.DoSavepoint, document.DoStop, document.DoStart, document.DoRestartPipeline, document.DoDiagnostics:
		return true
	case document.DoApply:
		return c.DryRun
	}
	return false
}

// Clock is the gateway's.
type Clock interface {
	// Now is Unix ms; trusted: dates may be judged by it.
	Now() (ms int64, trusted bool)
	// Told raises the floor of the clock, by at most a day: somebody who is believed has signed something then.
	Told(ms int64)
}

// Bell is heard when there is something new.
type Bell interface {
	// Run listens until ctx ends: it calls ring with each message, and heard when the connection comes and goes. Neither blocks it.
	Run(ctx context.Context, ring func(payload []byte), heard func(bool))
}
