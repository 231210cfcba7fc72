// Package rauc is the backend rauc: a whole system in two slots, which RAUC writes and the boot loader chooses from (RAUC Reference, "D-Bus API", "System Configuration File"; tested with 1.8).
//
// It asks RAUC by D-Bus and believes of its answers what a crash cannot have made wrong: which slot runs, and what the boot loader says of a slot. That an installation was finished is in a note of its own, which is durable when Stage
// returns and gone before anything is written; RAUC's status says ok for a slot whose writer was killed. It can be used by one goroutine at a time. DESIGN.md has the crashes.
package rauc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/bus"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// Why the backend cannot be used, or did not do what it was asked. Every call can be repeated behind each of them; behind ErrNoRauc, ErrDied and ErrBusy (upgrade.Passing) that may help.
var (
	// ErrNoRauc comes when the system bus or RAUC cannot be reached.
	ErrNoRauc error = upgrade.Passing("RAUC cannot be reached on the system bus")
	// ErrSystem comes when RAUC's configuration is not one that this backend can keep its promises with.
	ErrSystem = errors.New("RAUC's system.conf does not fit")
	// ErrSlot comes for a slot that is not there, that runs, or that holds nothing that may run.
	ErrSlot = errors.New("no slot for this")
	// ErrArtifact comes for an artifact that is not what its target says: RAUC was not asked.
	ErrArtifact = errors.New("the artifact is not what its manifest names")
	// ErrRefused comes when RAUC ends an installation with an error; its text is RAUC's (LastError).
	ErrRefused = errors.New("RAUC has not installed the bundle")
	// ErrDied comes when RAUC ends, or the bus does, before it has told how an installation ended.
	ErrDied error = upgrade.Passing("RAUC ended in the middle of an installation")
	// ErrBusy comes when RAUC installs something else and the context ends first.
	ErrBusy error = upgrade.Passing("RAUC is busy with another installation")
	// ErrNotArmed comes when the boot loader does not do as it was told: a slot that is to be started has no tries, or is not the first.
	ErrNotArmed = errors.New("the boot loader did not take it")
	// ErrNoReboot comes when nothing took the request to reboot.
	ErrNoReboot = errors.New("the machine does not reboot")
)

// The names of RAUC on the bus.
const (
	service   = "de.pengutronix.rauc"
	object    = "/"
	installer = "de.pengutronix.rauc.Installer"
)

const (
	// callMax bounds one question: a boot loader's script runs in it, on a slow flash.
	callMax = 30 * time.Second
	// askEvery is how often an installation that says nothing is asked whether it still runs.
	askEvery = 5 * time.Second
	// takenMax is how long a request to reboot may lie there: systemd looks at once.
	takenMax = 60 * time.Second
)

// Backend is upgrade.Backend by RAUC. Its fields are set before it is used.
type Backend struct {
	FS      disk.FS
	State   string // state_dir
	Address string // of the system bus, as DBUS_SYSTEM_BUS_ADDRESS has it
	Conf    string // RAUC's system.conf; one that cannot be read is not judged
	Reboot  string // what Restart makes and weir-reboot.path waits for
	BootID  string // this boot's: a request of another one is not for this

	every, taken time.Duration // askEvery and takenMax; tests shorten them
	step         func(call string) error
	planted      fault
}

// fault is a mistake that a test plants.
type fault string

const (
	faultStatus fault = "status=ok of RAUC is believed"
	faultOwner  fault = "nobody looks whether RAUC lives"
	faultArmed  fault = "nobody looks whether the boot loader took it"
	faultNote   fault = "the note outlives the next installation's begin"
)

var _ upgrade.Backend = (*Backend)(nil)

// Standard is the backend of the service.
func Standard(stateDir, bootID string) *Backend {
	return &Backend{FS: disk.OS, State: stateDir, Address: bus.Address(), Conf: "/etc/rauc/system.conf", Reboot: "/run/weir/reboot-request", BootID: bootID}
}

// session is a connection for one method, with RAUC's answers. A bus that went away is so found anew by the next method.
type session struct {
	*bus.Conn
	b *Backend
}

func (b *Backend) dial(ctx context.Context) (*session, error) {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	c, err := bus.Dial(ctx, b.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRauc, err)
	}
	return &session{c, b}, nil
}

// call asks RAUC. to is service, or the unique name of one process.
func (s *session) call(ctx context.Context, to, member string, args ...any) ([]any, error) {
	if err := s.b.at(member); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	body, err := s.Call(ctx, to, object, installer, member, args...)
	return body, reached(err)
}

func (s *session) property(ctx context.Context, to, name string) (any, error) {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	v, err := s.Property(ctx, to, object, installer, name)
	return v, reached(err)
}

// reached tells a RAUC that is not there from one that refuses.
func reached(err error) error {
	var said *bus.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said):
		switch said.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Spawn.ExecFailed", "org.freedesktop.DBus.Error.AccessDenied":
			return fmt.Errorf("%w: %w", ErrNoRauc, err)
		}
		return err
	case errors.Is(err, bus.ErrGone):
		return fmt.Errorf("%w: %w", ErrNoRauc, err)
	}
	return err
}

// at is where a test ends the process.
func (b *Backend) at(call string) error {
	if b.step != nil {
		return b.step(call)
	}
	return nil
}

// Probe tells the slots, or why RAUC cannot be used.
func (b *Backend) Probe(ctx context.Context) (upgrade.Caps, error) {
	if err := b.judgeConf(); err != nil {
		return upgrade.Caps{}, err
	}
	places, _, err := b.look(ctx)
	if err != nil {
		return upgrade.Caps{}, err
	}
	caps := upgrade.Caps{NeedsReboot: true, OwnBootCounter: true}
	for _, p := range places {
		caps.Slots = append(caps.Slots, p.Slot)
	}
	return caps, ctx.Err()
}

// Booted is the slot that the machine runs from, as RAUC found it in what the boot loader gave the kernel.
func (b *Backend) Booted(ctx context.Context) (upgrade.Slot, error) {
	_, booted, err := b.look(ctx)
	return booted, err
}

// noteFile is what this backend remembers, in state_dir/upgrade.
const noteFile = "rauc.json"

// note is its content. One that cannot be read, or is of another format, counts as none: the bundle is installed again.
type note struct {
	Format int          `json:"format"` // 1
	Places []place      `json:"places"` // the slots, as RAUC had them when it could be asked: it cannot while it installs
	Whole  upgrade.Slot `json:"whole,omitempty"`
	SHA256 string       `json:"sha256,omitempty"` // of the bundle that Whole holds, hex
	Mark   string       `json:"mark,omitempty"`   // what RAUC's status said then: another one's installation changes it
}

const noteFormat = 1

func (b *Backend) noteName() string { return filepath.Join(b.State, "upgrade", noteFile) }

func (b *Backend) note() (n note) {
	text, err := disk.ReadFile(b.FS, b.noteName())
	if err != nil || json.Unmarshal(text, &n) != nil || n.Format != noteFormat {
		return note{Format: noteFormat}
	}
	return n
}

// keep makes a note durable.
func (b *Backend) keep(n note) error {
	text, err := json.Marshal(n)
	if err == nil {
		err = b.FS.MkdirAll(filepath.Dir(b.noteName()))
	}
	if err == nil {
		err = disk.WriteFileAtomic(b.FS, b.noteName(), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("remember what is in the slots: %w", err)
	}
	return nil
}
