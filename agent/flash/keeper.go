package flash

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
)

// File in state_dir is the meter's record.
const File = "flash.json"

const (
	// lookEvery is how often the counters are read. It costs three small reads.
	lookEvery = time.Minute
	// windowLeast is what a decision stands on at least; with checkpoints that are further apart, three of them.
	windowLeast = 10 * time.Minute
)

// Site is the agent whose storage is kept.
type Site struct {
	Config  *config.Config
	Journal *journal.Journal
	FS      disk.FS
	Log     *slog.Logger
	// Pipelines are those that are to run.
	Pipelines func() []*config.Pipeline
	// Stretch has the coordinators that run keep checkpoints this far apart at least; 0: as configured. A repeat is harmless.
	Stretch func(least time.Duration)

	System System        // of tests
	Every  time.Duration // of tests: how often it is looked and decided; 0: as ever
}

// Keeper counts what is written to the storage of state_dir, and stretches linger and checkpoint intervals for it. Run owns every field above mu.
type Keeper struct {
	site     Site
	config   *config.Flash
	meter    *Meter
	log      *slog.Logger
	every    time.Duration
	window   time.Duration
	began    time.Time // of this process: running time counts from here, by the monotonic clock
	setting  Setting
	base     Setting // as configured, at the last look
	why      string  // of the setting, as far as it is not the configured one
	short    string  // why the budget is passed all the same
	told     string  // short, as the log has it
	measured windowed
	findings []Finding
	proof    string
	unkept   bool // the record could not be made durable, and the log has it

	interval atomic.Int64 // the least one between checkpoints, in ns; 0: as configured

	mu     sync.Mutex
	status api.FlashStatus
}

// windowed is where the window under way began.
type windowed struct {
	at      time.Duration
	device  uint64
	own     uint64
	journal uint64 // bytes of its pages
	frames  uint64 // bytes of its frames
}

// NewKeeper finds the device of state_dir, tells what does not fit, and tries an fsync. Nothing of it keeps the agent from starting.
func NewKeeper(site Site) *Keeper {
	c := &site.Config.Flash
	k := &Keeper{site: site, config: c, log: site.Log, every: lookEvery, window: windowLeast, began: time.Now()}
	if site.Every > 0 {
		k.every, k.window = site.Every, site.Every
	}
	dir, sys := site.Config.StateDir.Value, site.System
	device := c.Device
	if device == config.FlashDeviceAuto {
		device = ""
	}
	var err error
	k.meter, err = Open(Options{System: sys, FS: site.FS, File: filepath.Join(dir, File), Dir: dir, Device: device})
	if err != nil {
		k.log.Warn("record of what was written to flash is not read", "error", err)
	}
	d := k.meter.Device()
	k.findings = sys.Examine(dir, d)
	k.proveSync(sys, d)
	for _, f := range k.findings {
		k.log.Warn("storage of state_dir", "what", f.What, "do", f.Do)
	}
	k.log.Info("storage of state_dir", "disk", d.Name(), "through", d.Via, "not_known", d.Why, "fsync", k.proof, "wear", sys.Wear(d.Disks).String())
	k.base = k.limits(0).Base
	k.setting = k.base
	k.measured = k.here(0)
	k.tell(0)
	return k
}

// proveSync keeps the record, which a start does anyway, and looks whether the disk was told to flush. Where there is nothing to keep it claims nothing.
func (k *Keeper) proveSync(sys System, d *Device) {
	before, err := sys.Read(d.Disks)
	if !k.meter.Keeps() {
		k.proof = "whether an fsync reaches the disk was not tried: " + File + " is left as it is"
		return
	}
	if !k.keep() {
		return
	}
	after, aerr := sys.Read(d.Disks)
	if err != nil || aerr != nil {
		return
	}
	var bad *Finding
	if k.proof, bad = sys.Proof(d, before, after); bad != nil {
		k.findings = append(k.findings, *bad)
	}
}

// Run looks until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTicker(k.every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			k.look(time.Since(k.began))
			if k.meter.Unkept() {
				k.keep()
			}
			return nil
		case <-timer.C:
			k.look(time.Since(k.began))
		}
	}
}

// look reads the counters at running time now, and decides when a window is over.
func (k *Keeper) look(now time.Duration) {
	if err := k.meter.Look(now); err == nil {
		limits := k.limits(now)
		if set := follow(k.setting, k.base, limits.Base); set != k.setting {
			k.setting = set
			k.force(limits)
		}
		k.base = limits.Base
		if now-k.measured.at >= max(k.window, 3*k.setting.Interval) || limits.Bound(k.setting) != k.setting {
			k.decide(limits, now)
		}
	}
	k.pass()
	if k.meter.Due() {
		k.keep()
	}
	k.tell(now)
}

// keep makes the record durable. That it cannot be is told once, until it can again: it is tried at each look, and a log wears flash too.
func (k *Keeper) keep() bool {
	err := k.meter.Keep()
	if err != nil && !k.unkept {
		k.log.Warn("what was written to flash is not kept", "error", err)
	}
	k.unkept = err != nil
	return err == nil
}

// here is where a window begins.
func (k *Keeper) here(now time.Duration) windowed {
	u, j := k.meter.Usage(), k.site.Journal.Stats().Log
	return windowed{at: now, device: u.Total.Device, own: u.Total.Own, journal: j.PagesWritten * 4096, frames: j.BytesWritten}
}

// limits are those of the config, narrowed by what else was promised: an immediate result does not wait long for the journal, and retained checkpoints
// that are far apart do not fill it.
func (k *Keeper) limits(now time.Duration) Limits {
	l := Limits{Base: Setting{Linger: k.site.Config.Journal.Linger}, Most: Setting{Linger: k.config.LingerMax, Interval: k.config.IntervalMax}}
	retained := 1
	for _, p := range k.site.Pipelines() {
		if i := p.Checkpoint.Interval; i > 0 && (l.Base.Interval == 0 || i < l.Base.Interval) {
			l.Base.Interval = i
		}
		retained = max(retained, p.Checkpoint.Retained)
		if slices.ContainsFunc(p.Sinks, func(s *plan.SinkSpec) bool { return s.Commit.Value == plan.CommitImmediate }) {
			l.Most.Linger = min(l.Most.Linger, k.config.LingerImmediateMax)
		}
	}
	l.Most.Interval = min(l.Most.Interval, roomFor(k.site.Config.Journal.MaxBytes, retained, k.framesPerSecond(now)))
	return l
}

// follow is pure: what is set as configured stays so when the config changes while the agent runs (weir apply), and is no stretch.
func follow(set, was, is Setting) Setting {
	if set.Linger == was.Linger {
		set.Linger = is.Linger
	}
	if set.Interval == was.Interval {
		set.Interval = is.Interval
	}
	return set
}

func (k *Keeper) framesPerSecond(now time.Duration) float64 {
	if span := now - k.measured.at; span >= k.every && span > 0 {
		return float64(k.site.Journal.Stats().Log.BytesWritten-k.measured.frames) / span.Seconds()
	}
	return 0
}

// roomFor is pure: how far apart checkpoints may be so that those that are retained hold a quarter of the journal at most. It is a power of two seconds, so that it
// does not move with every message.
func roomFor(bytesMax int64, retained int, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return math.MaxInt64
	}
	seconds := float64(bytesMax) / 4 / float64(retained) / perSecond
	switch {
	case seconds >= 1<<20:
		return math.MaxInt64
	case seconds < 1:
		return time.Second
	}
	return time.Duration(math.Exp2(math.Floor(math.Log2(seconds)))) * time.Second
}

// decide asks the governor and does what it says. A new window begins.
func (k *Keeper) decide(limits Limits, now time.Duration) {
	u, from, to := k.meter.Usage(), k.measured, k.here(now)
	span := (now - from.at).Seconds()
	verdict := Verdict{Setting: limits.Bound(k.setting)}
	if span >= k.window.Seconds() && span > 0 {
		f := Facts{Budget: k.endurance().Budget(u), Spent: float64(u.Day.Device), Left: Day - u.Day.Ran, Rate: float64(to.device-from.device) / span, Own: 1, Journal: 1}
		if u.OwnKnown && to.device > from.device {
			f.Own, f.Journal = shares(to.device-from.device, to.own-from.own, to.journal-from.journal)
		}
		verdict = limits.Decide(k.setting, f)
	}
	k.measured = to
	k.settle(limits, verdict)
}

// shares is pure: weir's share of what the disk was given, and the journal's of weir's. The kernel may count far too much as weir's (Sum); that is no more than all, or the journal,
// whose bytes are known, would seem to be next to nothing of it.
func shares(device, own, journal uint64) (ofDevice, ofOwn float64) {
	if own = min(own, device); own == 0 {
		return 0, 1
	}
	return float64(own) / float64(device), min(float64(journal)/float64(own), 1)
}

// settle brings a verdict into force.
func (k *Keeper) settle(limits Limits, v Verdict) {
	k.short = ""
	if k.config.Governor != config.GovernorOn {
		if v.Setting = limits.Base; v.Why != "" && v.Why != noBudget {
			k.short = v.Why + "; the governor is off"
		}
	} else if v.Setting == k.setting && v.Why != "" && v.Why != noBudget {
		k.short = v.Why
	}
	if k.short != "" && k.told == "" { // once, until it is over
		k.log.Warn("flash budget of the day will be passed", "why", k.short)
	}
	k.told = k.short
	if v.Setting == k.setting {
		return
	}
	was := k.setting
	k.setting, k.why = v.Setting, v.Why
	if v.Setting == limits.Base {
		k.why = ""
	}
	k.log.Info("writes to flash are paced anew", "linger", k.setting.Linger, "linger_was", was.Linger, "checkpoint_interval_least", k.setting.Interval, "was", was.Interval, "why", v.Why)
	k.force(limits)
}

// noBudget is the verdict's reason where there is none.
const noBudget = "there is no budget"

// force tells the journal and the coordinators.
func (k *Keeper) force(limits Limits) {
	least := k.setting.Interval
	if least <= limits.Base.Interval {
		least = 0
	}
	k.interval.Store(int64(least))
	k.site.Journal.Stretch(k.setting.Linger, k.config.InflightMax/2)
	k.pass()
}

// pass tells the coordinators that run. Repeating it is harmless, and reaches one that began while the last change was made.
func (k *Keeper) pass() {
	k.site.Stretch(k.LeastInterval())
}

// LeastInterval is what a coordinator that begins keeps to.
func (k *Keeper) LeastInterval() time.Duration {
	if k == nil { // a look that changes nothing has no keeper
		return 0
	}
	return time.Duration(k.interval.Load())
}

func (k *Keeper) endurance() Endurance {
	return Endurance{TBW: k.config.TBW, Years: k.config.Years, DailyBudget: k.config.DailyBudget}
}

// tell makes the status.
func (k *Keeper) tell(now time.Duration) {
	u, e, base := k.meter.Usage(), k.endurance(), k.limits(now).Base
	s := api.FlashStatus{
		Disk: u.Device.Name(), Through: u.Device.Via, NotKnown: u.Device.Why, Sync: k.proof, Wear: u.Wear.String(), UsedLeast: -1, UsedMost: -1, Spare: uint8(u.Wear.Spare),
		DaySeconds: u.Day.Ran.Seconds(), DayBytes: u.Day.Device, DayOwn: u.Day.Own, OwnKnown: u.OwnKnown, TotalBytes: u.Total.Device, TotalOwn: u.Total.Own,
		PerDay: u.PerDay, MeasuredSeconds: u.Measured.Seconds(), Budget: e.Budget(u), Years: -1, YearsWanted: k.config.Years, TBW: k.config.TBW,
		Governor: k.config.Governor == config.GovernorOn, Linger: api.Paced{Base: base.Linger.Seconds(), Now: k.setting.Linger.Seconds()},
		Interval: api.Paced{Base: base.Interval.Seconds(), Now: max(k.setting.Interval, base.Interval).Seconds()}, Why: k.why, Short: k.short,
	}
	if len(u.Device.Disks) > 0 {
		s.Kind = string(u.Device.Disks[0].Kind)
	}
	if u.Wear.Known {
		s.UsedLeast, s.UsedMost = u.Wear.Least, u.Wear.Most
	}
	if y, ok := e.YearsLeft(u); ok {
		s.Years = y
	}
	if u.Err != nil {
		s.Error = u.Err.Error()
	}
	for _, f := range k.findings {
		s.Findings = append(s.Findings, f.String())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = s
}

// Status is the status of the last look, nil of a look that changes nothing.
func (k *Keeper) Status() *api.FlashStatus {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	return &s
}

// Problems picks what needs an operator.
func Problems(s *api.FlashStatus) (list []string) {
	if s == nil {
		return nil
	}
	list = append(list, s.Findings...)
	if s.UsedLeast >= 1 || s.Spare == uint8(SpareUrgent) {
		list = append(list, fmt.Sprintf("storage %s is worn out (%s, spare blocks level %d of 3): replace the device", s.Disk, s.Wear, s.Spare))
	} else if s.Years >= 0 && s.Years < float64(s.YearsWanted) {
		list = append(list, fmt.Sprintf("storage %s lasts %.1f years at %s a day, wanted are %d: see docs/flash.md for what to change", s.Disk, s.Years, Bytes(s.PerDay), s.YearsWanted))
	}
	if s.Short != "" {
		list = append(list, "the flash budget of the day will be passed: "+s.Short)
	}
	return list
}
