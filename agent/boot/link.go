package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/upgrade"
)

// Booted is what a start runs: /run/weir-boot/booted.
type Booted struct {
	Slot    upgrade.Slot `json:"slot"`
	SHA256  string       `json:"sha256,omitempty"` // of a slot's program
	Version string       `json:"version,omitempty"`
	Start   string       `json:"start,omitempty"` // INVOCATION_ID: whoever finds another one was not started through the helper
	State   string       `json:"state_dir"`       // whose record it went by
	Trial   bool         `json:"trial,omitempty"` // it runs only when the start was counted
	Taken   string       `json:"taken,omitempty"` // why the factory program runs, whatever the record asks for
	Rescue  string       `json:"rescue,omitempty"`
}

// Refused is why a slot was not run: /run/weir-boot/refused has a list of them.
type Refused struct {
	Slot upgrade.Slot `json:"slot"`
	Why  string       `json:"why"`
}

// Link decides which program a start runs, and links it. Durable on return, but for what it notes in memory. A start for which nothing has changed writes nothing to flash. The error tells that the link could not be made: what was
// linked before stays. A program on trial is linked in the hope that Count counts the start; Settle looks whether it did.
func (p *Places) Link(ctx context.Context) (Booted, error) {
	p.prepare()
	follows := p.pace()
	defer p.lock()()
	defer func() { p.paced(follows) }()
	return p.run(ctx, follows > 1, true, nil)
}

// Settle has the old program run where the new one must not: this start was not counted, or was one too many. Without a trial it does nothing.
func (p *Places) Settle(ctx context.Context) (Booted, error) {
	b, err := p.Booted()
	if err == nil && b.Start == p.Start && !b.Trial {
		return b, nil
	}
	p.prepare()
	defer p.lock()()
	counted := p.counted() || p.planted == faultNoSettle
	if r, err := p.record(); err == nil && counted && b.Start == p.Start && b.Trial && r.Runs() == b.Slot {
		return b, nil
	}
	var refused []Refused
	if !counted {
		p.say(failure, "this start was not counted")
		if err == nil && b.Trial {
			refused = []Refused{{Slot: b.Slot, Why: "this start was not counted"}}
		}
	}
	return p.run(ctx, false, counted, refused)
}

// Booted is what the last Link or Settle noted.
func (p *Places) Booted() (b Booted, err error) {
	there, err := p.readJSON(filepath.Join(p.Run, bootedFile), &b)
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	return b, err
}

// prepare begins a run as root.
func (p *Places) prepare() {
	unix.Umask(0o022)
	if err := p.makeDir(p.Run); err != nil { // in memory: without it only notes are missing
		p.say(warning, "%v", err)
	}
}

// run does the work of a start. anew: what was verified is hashed again. counts: the start will be counted, if it has to be. refused is what is known of already.
func (p *Places) run(ctx context.Context, anew, counts bool, refused []Refused) (Booted, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	r, err := p.record()
	if err != nil {
		p.say(failure, "the record of upgrades cannot be read: %v", err)
	}
	v := &verifying{places: p, record: r, refused: refused, anew: anew || r != nil && onTrial(r.State) && counts}
	b := p.choose(ctx, v, counts)
	b.Start, b.State = p.Start, p.State
	if about, err := p.about(b.Slot); err == nil && b.Slot != upgrade.Factory {
		b.SHA256, b.Version = about.SHA256, about.Version
	}
	if err := p.link(b.Slot); err != nil {
		return b, err
	}
	p.tell(b, v.refused)
	if r != nil && r.State == upgrade.Committed && b.Slot == r.Standby {
		p.committed(b.Slot)
	}
	return b, nil
}

func (p *Places) choose(ctx context.Context, v *verifying, counts bool) (b Booted) {
	usable := func(s upgrade.Slot) bool { return v.usable(ctx, s) }
	rescue := false
	switch r := v.record; {
	case r == nil: // what ran before is better than anything else that is known
		b.Slot = upgrade.Factory
		if linked := p.linked(); linked != "" && linked != upgrade.Factory {
			if usable(linked) {
				b.Slot = linked
			} else {
				rescue = true
			}
		}
	case foreign(r):
		b.Slot = upgrade.Factory
	default:
		if why, keep := overrule(p.facts(ctx, r)); why != "" {
			p.takeFactory(why, keep)
			return Booted{Slot: upgrade.Factory, Taken: why}
		}
		if counts {
			var n upgrade.Record
			n, b.Slot, rescue = upgrade.Boot(*r, Now(), usable)
			b.Trial = n.State != r.State || n.Tries != r.Tries
		} else {
			b.Slot, rescue = upgrade.BootUncounted(*r, usable)
		}
	}
	if rescue {
		b.Rescue = "no slot that the record asks for can be run"
	}
	return b
}

// record is the agent's record as far as it is about the helper's slots: an upgrade of the whole system is none of them, and the program that the system brought runs.
func (p *Places) record() (*upgrade.Record, error) {
	r, err := p.recordOf()
	if err == nil && r.Target.Backend == systemBackend {
		r = &upgrade.Record{}
	}
	return r, err
}

// recordOf reads the agent's record as a stranger's. An error: it is there and cannot be read.
func (p *Places) recordOf() (*upgrade.Record, error) {
	dir := filepath.Join(p.State, upgradeDir)
	if info, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return &upgrade.Record{}, nil // no upgrade was ever asked for
	} else if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", dir, errStrange)
	}
	r, err := upgrade.Store{FS: guardedFS{base: p.State, sizeMax: recordMax}, Dir: dir}.Read()
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (p *Places) facts(ctx context.Context, r *upgrade.Record) facts {
	f := facts{record: r}
	if r.State == upgrade.Idle {
		return f
	}
	var h held
	if there, err := p.readJSON(filepath.Join(p.Dir, heldFile), &h); err == nil && there {
		f.held = &h
	}
	if r.Runs() == upgrade.Factory {
		return f
	}
	_, err := os.Lstat(filepath.Join(p.Dir, slotsDir))
	f.unknown = errors.Is(err, fs.ErrNotExist)
	if r.Resting() && known(r.Runs()) {
		if a, err := p.about(r.Runs()); err == nil && a.Factory != "" {
			now := p.factoryDigest(ctx)
			f.replaced = now != "" && now != a.Factory
		}
	}
	return f
}

// linked is the slot that is linked; "": none.
func (p *Places) linked() upgrade.Slot {
	to, err := os.Readlink(filepath.Join(p.Dir, linkFile))
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(p.Dir, to)
	}
	s, _ := p.slotOf(to)
	return s
}

// link has ExecStart run the slot's program.
func (p *Places) link(s upgrade.Slot) error {
	if p.linked() == s {
		return nil
	}
	if err := p.makeDir(p.Dir); err != nil {
		return err
	}
	to := p.slot(s)
	if s != upgrade.Factory {
		to = filepath.Join(slotsDir, string(s))
	}
	name := filepath.Join(p.Dir, linkFile)
	tmp := name + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	p.step("symlink")
	if err := os.Symlink(to, tmp); err != nil {
		return err
	}
	if err := p.makeWay(name); err != nil {
		return err
	}
	p.step("rename link")
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return p.syncDir(p.Dir)
}

// tell notes in memory what was linked, for the agent and for status.
func (p *Places) tell(b Booted, refused []Refused) {
	notes := []struct {
		name  string
		what  any
		there bool
	}{{bootedFile, b, true}, {refusedFile, refused, len(refused) > 0}, {rescueFile, b.Rescue, b.Rescue != ""}}
	for _, n := range notes {
		if !n.there {
			p.forget(n.name)
		} else if err := p.note(n.name, n.what); err != nil {
			p.say(warning, "note %s: %v", n.name, err)
		}
	}
	if !b.Trial {
		p.forget(endedFile) // of an earlier trial
	}
	switch {
	case b.Rescue != "":
		p.say(failure, "rescue: the factory program runs without pipelines: %s", b.Rescue)
	case len(refused) > 0:
		p.say(warning, "slot %s runs in place of what was refused", b.Slot)
	}
}

// takeFactory notes that the factory program runs until another upgrade, and empties the slots. keep nil: it is noted.
func (p *Places) takeFactory(why string, keep *held) {
	if keep == nil {
		return
	}
	p.say(warning, "the factory program runs until the next upgrade: %s", why)
	if err := p.hold(*keep); err != nil { // the next start tries again
		p.say(failure, "note that the factory program runs: %v", err)
	}
}

func (p *Places) hold(h held) error {
	if err := p.makeDir(p.Dir); err != nil {
		return err
	}
	if err := p.keepJSON(filepath.Join(p.Dir, heldFile), h); err != nil {
		return err
	}
	return errors.Join(p.clear(upgrade.SlotA), p.clear(upgrade.SlotB))
}

// Now is the moment, as records have it.
func Now() upgrade.Moment {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return upgrade.Moment{Ns: sinceBoot()}
	}
	return upgrade.Moment{Boot: strings.TrimSpace(string(b)), Ns: sinceBoot()}
}
