//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// upgrader has another program take over, one at a time (agent/upgrade/DESIGN.md has the states). Its goroutine (run) owns everything but what mu guards; before Run open does.
type upgrader struct {
	agent   *Agent
	store   upgrade.Store
	backend upgrade.Backend // nil: none, nothing can be installed
	caps    upgrade.Caps
	here    upgrade.Situation
	asks    chan *upgradeAsk
	ended   chan struct{} // closed when run has returned
	leave   chan struct{} // closed when this process is to end: another program is to run
	kept    string        // digest of the config that the upgrade under way began with; "": none was kept
	broken  error         // the record cannot be used: which program made what is on flash is not known
	fresh   bool          // the record on flash is older than rec

	held    *probation                  // of a program on trial
	killed  string                      // how this program was ended on trial before this start, by the machine; "": it was not
	stopped map[string]bool             // pipelines that this process has stopped for the upgrade under way
	parked  map[string]bool             // pipelines that this process was not to start, and has not
	owed    func(context.Context) error // what a durable step brought with it here, and has failed: it is done before all else
	watched time.Time                   // since when this process is on trial
	again   inARow
	leaveAt time.Time     // when it leaves once more, if it is to now and then
	least   time.Duration // that it is on trial, whatever is set: a test has no time
	patient selftestPatience
	tally   map[string]uint64 // how often this was done for the upgrade under way, by its name
	lacks   string            // why the fetch waits, as it was told last

	repeated atomic.Uint64 // pieces that were asked for once more

	fetchFor uint64    // the upgrade for which fetchAt was drawn
	fetchAt  time.Time // when its pieces are fetched from

	mu     sync.Mutex
	rec    upgrade.Record
	act    upgrade.Act
	cut    context.CancelFunc // ends the act under way
	halt   string             // why the upgrade is to be given up; "": it is not
	wait   string             // what the act under way waits for
	vain   int                // how often it was tried in a row, and failed
	stands string             // why it fails, once that was often; "": it was not
}

// openUpgrader reads the record and decides what this start is: it writes nothing.
func (a *Agent) openUpgrader() (*upgrader, error) {
	u := &upgrader{
		agent: a, least: trialLeastOf(), patient: selftestPatience{selftestWait, selftestDrain}, store: upgrade.Store{FS: disk.OS, Dir: filepath.Join(a.config.StateDir.Value, "upgrade")}, backend: a.options.Backend,
		asks: make(chan *upgradeAsk), ended: make(chan struct{}), leave: make(chan struct{}), stopped: map[string]bool{}, parked: map[string]bool{}, tally: map[string]uint64{}, here: upgrade.Situation{Booted: upgrade.Factory},
	}
	rec, err := u.store.Read()
	if err != nil {
		if standing := errors.Is(err, upgrade.ErrDamaged) || errors.Is(err, upgrade.ErrVersion); !a.runs() || !standing {
			return nil, err // what the disk refuses now, it may give the next start
		}
		u.broken = err
		u.act = upgrade.Act{Run: upgrade.RunNone, Do: upgrade.Control, Why: err.Error()}
		a.log.Error("the record of upgrades cannot be used: no pipeline runs", "error", err)
		return u, nil
	}
	u.rec = rec
	if err := u.locate(); err != nil {
		return nil, err
	}
	if !rec.Resting() {
		if u.kept, err = u.readKept(); err != nil { // no start to come finds it otherwise, nor does the other program
			a.log.Error("which config the upgrade began with cannot be read: the one of an ordinary start runs", "error", err)
		}
	}
	if !a.runs() { // a tool: it is no start
		u.act = upgrade.Act{Run: upgrade.RunAll, Do: upgrade.Rest}
		return u, nil
	}
	if err := u.countStart(); err != nil {
		return nil, err
	}
	next, err := upgrade.Next(u.rec, upgrade.Event{Kind: upgrade.Started, Now: now(), Booted: u.here.Booted, Rescue: u.here.Rescue, Fenced: a.fencedBefore()})
	if err != nil {
		return nil, err
	}
	u.rec, u.fresh = next, true
	u.act, u.leaveAt = upgrade.Decide(u.rec, u.here), time.Now().Add(upgrade.LeaveAgain)
	if u.act.Run == upgrade.RunHeld {
		u.held = &probation{}
	}
	if u.act.Why != "" {
		a.log.Warn("this start is not an ordinary one", "upgrade", string(u.rec.State), "slot", string(u.here.Booted), "why", u.act.Why)
	}
	return u, nil
}

// fencedBefore tells that an earlier start has learned that another device has taken this one's place. Who cannot tell, settles it later.
func (a *Agent) fencedBefore() bool {
	r, err := identity.Load(a.fs, a.config.StateDir.Value)
	if err != nil || r == nil {
		return false
	}
	by, err := identity.LoadFenced(a.fs, a.config.StateDir.Value, r)
	return err == nil && by != nil
}

// locate asks the backend which slot this process runs from. Without a backend it is the one that the record says runs.
func (u *upgrader) locate() error {
	u.here.Rescue = u.agent.options.ControlOnly
	if u.rec.State != upgrade.Idle {
		u.here.Booted = u.rec.Runs()
	}
	if u.backend == nil || !u.agent.runs() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), backendWait)
	defer cancel()
	var err error
	if u.caps, err = u.backend.Probe(ctx); err == nil {
		u.here.Booted, err = u.backend.Booted(ctx)
	}
	switch {
	case err == nil:
	case u.rec.Resting(): // started by hand, say: it runs as ever
		u.agent.log.Warn("no other program can be installed from here", "error", err)
		u.backend = nil // reach asks it again
		return nil
	default:
		return fmt.Errorf("upgrade.backend: an upgrade is under way (%s), and which program this is cannot be told: %w; have the service manager start it (systemctl start weir)", u.rec.State, err)
	}
	if h, ok := u.backend.(helped); ok {
		return u.listen(h)
	}
	return nil
}

// helped is a backend whose helper has a say.
type helped interface {
	// Helped gives why the factory program runs in place of what the record asks for, and why it is a rescue; "" each: neither.
	Helped() (taken, rescue string, err error)
	// Refused gives why the helper has not run a slot in this start; "": it was not to, or has.
	Refused(upgrade.Slot) (why string, err error)
	// Killed gives how the program with this digest was ended on trial before this start, where it was the machine that ended it; "": it was not.
	Killed(sha256 string) (how string, err error)
}

// listen takes up what the helper says of this start.
func (u *upgrader) listen(h helped) error {
	taken, rescue, err := h.Helped()
	if err != nil {
		return fmt.Errorf("upgrade.backend: %w", err)
	}
	u.here.Rescue = u.here.Rescue || rescue != ""
	if taken != "" {
		u.rec, err = upgrade.Next(u.rec, upgrade.Event{Kind: upgrade.Replaced, Now: now(), Why: taken})
		return err
	}
	switch {
	case u.rec.State == upgrade.Switched && u.here.Booted == u.rec.Active && (!u.here.Rescue || u.rec.Rescue):
		return u.refused(h)
	case u.rec.State == upgrade.Probation && u.here.Booted == u.rec.Standby:
		if u.killed, err = h.Killed(u.rec.Target.SHA256); err != nil { // one reason less to go back: no reason to keep the program from being tried
			u.agent.log.Warn("how the program on trial has ended before is not known", "error", err)
		}
		return nil
	}
	return nil
}

// refused ends an upgrade whose program the helper would not run: it has never been on trial, so that nothing is said against it.
func (u *upgrader) refused(h helped) error {
	why, err := h.Refused(u.rec.Standby)
	if err != nil || why == "" {
		return err
	}
	u.rec, err = upgrade.Next(u.rec, upgrade.Event{Kind: upgrade.Went, Now: now(), Cause: upgrade.CauseStage, Why: fmt.Sprintf("weir-boot does not run slot %s: %s", u.rec.Standby, why)})
	return err
}

// backendWait bounds one question to the backend.
const backendWait = 30 * time.Second

// now is the moment, since the boot.
func now() upgrade.Moment {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without one every boot is the same: tries bound it
	return upgrade.Moment{Boot: strings.TrimSpace(string(boot)), Ns: clock.This.Read().Boot}
}

// settle makes durable what the start decided, before anything else is written.
func (u *upgrader) settle() error {
	if u.broken != nil || !u.agent.runs() {
		return nil
	}
	before, err := u.store.Load()
	if err == nil && u.fresh && !reflect.DeepEqual(before, u.rec) {
		u.agent.die("upgrade-before-started")
		err = u.store.Save(&u.rec)
		u.agent.die("upgrade-after-started")
	}
	return err
}

// minor has the incarnation follow the record: an upgrade and its way back raise minor alone (RULES 27). What a program that was gone back from has made is of no lineage any more (RULES 25), but where its results have left.
func (u *upgrader) minor() error {
	if u.broken != nil || !u.agent.runs() || u.rec.Minor <= u.agent.identity.Minor {
		return nil
	}
	without := []uint32{}
	if s := u.rec.State; s == upgrade.Rollback || s == upgrade.Restoring || s == upgrade.RolledBack {
		without = append(without, u.rec.Minor-1)
	}
	for _, s := range u.rec.Savings {
		if s.Live {
			without = nil
		}
	}
	next := u.agent.identity.RaiseMinor(u.rec.Minor, without...)
	if err := next.Save(disk.OS, u.agent.config.StateDir.Value); err != nil {
		return err
	}
	u.agent.identity = next
	return nil
}

// record is for others than run's goroutine.
func (u *upgrader) record() upgrade.Record {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rec
}

// note takes an event: the record is durable before it returns.
func (u *upgrader) note(e upgrade.Event) error {
	e.Now = now()
	next, err := upgrade.Next(u.rec, e)
	if err != nil {
		return err
	}
	name := stepName(&u.rec, e.Kind)
	u.agent.die("upgrade-before-" + name)
	if err := u.store.Save(&next); err != nil {
		return err
	}
	was := u.rec.State
	u.mu.Lock()
	u.rec, u.act, u.wait = next, upgrade.Decide(next, u.here), ""
	u.mu.Unlock()
	u.agent.die("upgrade-after-" + name)
	if next.State != was {
		u.agent.log.Info("upgrade", "number", next.Number, "state", string(next.State), "from", next.From.Version, "to", next.Target.Version, "why", next.Why)
	}
	return nil
}

// stepName names a durable step for tests that kill the agent at it: probation-passed, rest-asked.
func stepName(r *upgrade.Record, k upgrade.Kind) string {
	state := string(r.State)
	if r.Resting() {
		state = "rest"
	}
	return strings.ReplaceAll(state+"-"+string(k), " ", "-")
}

// parks tells why a pipeline is not started; nil: it is.
func (u *upgrader) parks(name string) error {
	switch {
	case u.act.Run == upgrade.RunNone && u.act.Do == upgrade.Control:
		return notUsable(u.why())
	case u.act.Run == upgrade.RunNone:
		return fmt.Errorf("%w: %s", errUpgrading, u.why())
	case u.act.Run == upgrade.RunHeld && u.saving(name) == nil:
		return fmt.Errorf("%w: it did not run when the program was changed, and begins once the new one is committed", errUpgrading)
	}
	return nil
}

func (u *upgrader) why() string {
	if u.act.Why != "" {
		return u.act.Why
	}
	return "the upgrade is " + string(u.rec.State)
}

// notUsable is why this program runs no pipeline whatever becomes of an upgrade: none need be under way. It is an errUpgrading.
type notUsable string

func (n notUsable) Error() string { return "no pipeline runs: " + string(n) }

// Is says so for errors.Is.
func (notUsable) Is(target error) bool { return target == errUpgrading }

// errUpgrading: pipelines are not their own masters while the program changes.
var errUpgrading = errors.New("an upgrade is under way")

func (u *upgrader) heldBack(name string) (held *probation, live bool) {
	if s := u.saving(name); s != nil {
		return u.held, s.Live
	}
	return nil, false
}

// controls tells that this process has no brokers and no pipelines.
func (u *upgrader) controls() bool { return u.act.Do == upgrade.Control }

// busy tells why nothing else may change what runs; nil: it may. It is for others than run's goroutine.
func (u *upgrader) busy() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.broken != nil:
		return u.broken
	case u.act.Do == upgrade.Control:
		return fmt.Errorf("no pipeline runs: %s", u.act.Why)
	case !u.rec.Resting():
		return fmt.Errorf("%w, in the state %s: wait until it has ended (weir upgrade status), or give it up (weir upgrade abort)", errUpgrading, u.rec.State)
	}
	return nil
}

// masters tells why pipelines cannot be stopped, started, saved or restored now; nil: they can. It is for others than run's goroutine.
func (u *upgrader) masters() error {
	rec := u.record()
	switch rec.State {
	case upgrade.Accepted, upgrade.Fetching, upgrade.Staged:
		if !rec.Rescue {
			return nil
		}
	}
	return u.busy()
}

// underWay tells that an upgrade has begun and not ended.
func (u *upgrader) underWay() bool { return u.broken != nil || !u.rec.Resting() }

// settleUpgrade gives an upgrade up that the fence found on trial, as settleApply does.
func settleUpgrade(dir string) error {
	store := upgrade.Store{FS: disk.OS, Dir: dir}
	rec, err := store.Load()
	if err != nil || rec.State != upgrade.Probation {
		return err
	}
	rec, err = upgrade.Next(rec, upgrade.Event{Kind: upgrade.Went, Now: now(), Cause: upgrade.CauseGate, Why: "another device took this one's place within the probation"})
	if err != nil {
		return err
	}
	return store.Save(&rec)
}
