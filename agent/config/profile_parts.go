package config

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/boards"
)

// The sections of a board's profile.

var detectObject = &object[boards.Detect]{section: section{what: "detect", list: []*setting{
	of("dt_compatible", func(d *boards.Detect) *[]string { return &d.Compatible }, listOf[string]{of: devTreeKind, least: 1}, "Strings of the device tree's root, each of which means this board alone."),
	of("dmi", func(d *boards.Detect) *[]*boards.DMI { return &d.DMI }, listOf[*boards.DMI]{of: optional[boards.DMI]{dmiObject}, least: 1}, "What firmware without a device tree says."),
}}}

// devTreeKind is VENDOR,MODEL (Devicetree Specification 0.4, 2.3.1).
var devTreeKind = stringKind{textKind{what: "VENDOR,MODEL as in a device tree", pattern: `^[^, ]+,[^ ]+$`, allowed: "VENDOR,MODEL as in a device tree", check: func(s string) string {
	if vendor, model, found := strings.Cut(s, ","); !found || vendor == "" || model == "" || strings.Contains(s, " ") {
		return "it is not of that form"
	}
	return ""
}}}

var dmiObject = &object[boards.DMI]{section: section{what: "a DMI name", list: []*setting{
	of("vendor", func(d *boards.DMI) *string { return &d.Vendor }, factKind, "sys_vendor in /sys/class/dmi/id.", required()),
	of("product", func(d *boards.DMI) *string { return &d.Product }, factKind, "product_name in /sys/class/dmi/id.", required()),
}}}

var storageObject = &object[boards.Storage]{section: section{what: "a storage", list: []*setting{
	of("kind", func(s *boards.Storage) *string { return &s.Kind }, words("sd", "emmc", "nvme", "nor", "virtio"), "What it is.", required()),
	of("dev", func(s *boards.Storage) *string { return &s.Dev }, devKind, "Its name in /dev.", required()),
	of("wear_node", func(s *boards.Storage) *string { return &s.Wear }, pathName, "The file that tells its wear. Left out: nothing does."),
	of("by_partlabel", func(s *boards.Storage) *string { return &s.Label }, devKind, "Label of the partition for state_dir, where the board's images have one."),
	of("note", func(s *boards.Storage) *string { return &s.Note }, factKind, "What is special about it."),
}}}

// pathName is an absolute path.
var pathName = stringKind{pathKind}

var rtcObject = &object[boards.RTC]{section: section{what: "rtc", list: []*setting{
	of("present", func(c *boards.RTC) *string { return &c.Present }, words("fitted", "none", "probe"), "Whether there is one. probe: look at the machine.", required()),
	of("dev", func(c *boards.RTC) *string { return &c.Dev }, pathName, "Its file."),
	of("driver", func(c *boards.RTC) *string { return &c.Driver }, devKind, "Its driver in Linux."),
	of("battery", func(c *boards.RTC) *string { return &c.Battery }, words("yes", "no", "option", "probe"), "Whether it goes on without power."),
}}}

var watchdogObject = &object[boards.Watchdog]{section: section{what: "watchdog", list: []*setting{
	of("dev", func(w *boards.Watchdog) *string { return &w.Dev }, pathName, "Its file."),
	of("driver", func(w *boards.Watchdog) *string { return &w.Driver }, devKind, "Its driver in Linux."),
	of("max_s", func(w *boards.Watchdog) *int { return &w.MaxS }, countKind, "Longest timeout, in seconds."),
	of("external_reset", func(w *boards.Watchdog) *bool { return &w.ExternalReset }, boolKind{}, "It resets the whole board, not the processor alone."),
	of("service_s", func(w *boards.Watchdog) *int { return &w.ServiceS }, intKind{5, 3600}, "WatchdogSec of the service.", required()),
}}}

var boardLEDsObject = &object[boards.LEDs]{section: section{what: "leds", list: []*setting{
	of("status", func(l *boards.LEDs) *string { return &l.Status }, devKind, "Shows that the agent runs, and how.", required()),
	of("alarm", func(l *boards.LEDs) *string { return &l.Alarm }, devKind, "Lit while something is wrong."),
}}}

var powerObject = &object[boards.Power]{section: section{what: "power", list: []*setting{
	of("supply_node", func(p *boards.Power) *string { return &p.Supply }, pathName, "Directory in /sys/class/power_supply.", required()),
	of("min_pct", func(p *boards.Power) *int { return &p.MinPct }, intKind{0, 100}, "Charge below which no upgrade begins."),
}}}

var updaterObject = &object[boards.Updater]{section: section{what: "updater", list: []*setting{
	of("backend", func(u *boards.Updater) *string { return &u.Backend }, words("self", "rauc"), "self: the agent's binary. rauc: the whole system.", required()),
	of("slots", func(u *boards.Updater) *int { return &u.Slots }, intKind{1, 8}, "Places that a version may be in.", required()),
	of("bootloader", func(u *boards.Updater) *string { return &u.Bootloader }, factKind, "What chooses between the slots of the system."),
	of("tries", func(u *boards.Updater) *int { return &u.Tries }, intKind{1, 100}, "Starts that a new version has.", required()),
}}}

var limitsObject = &object[boards.Limits]{section: section{what: "limits", list: []*setting{
	of("GOMEMLIMIT", func(l *boards.Limits) *int64 { return &l.GOMEMLIMIT }, sizeKind{least: 16 << 20, most: 64 << 30}, "Soft limit of the collector. Left out: by the machine's memory and the cgroup."),
	of("MemoryHigh", func(l *boards.Limits) *boards.Memory { return &l.High }, memoryKind{}, "systemd.resource-control(5).", required()),
	of("MemoryMax", func(l *boards.Limits) *boards.Memory { return &l.Max }, memoryKind{}, "systemd.resource-control(5).", required()),
	of("TasksMax", func(l *boards.Limits) *int { return &l.Tasks }, intKind{64, 4096}, "systemd.resource-control(5).", required()),
}}}

var boardJournalObject = &object[boards.Journal]{section: section{what: "journal", list: []*setting{
	of("linger_ms", func(j *boards.Journal) *int { return &j.LingerMs }, intKind{1, 10000}, "Default of journal.linger, in milliseconds.", required()),
}}}

var boardCheckpointObject = &object[boards.Checkpoint]{section: section{what: "checkpoint", list: []*setting{
	of("interval_s", func(c *boards.Checkpoint) *int { return &c.IntervalS }, intKind{1, 86400}, "Default of checkpoint.interval, in seconds."),
	of("local_keep", func(c *boards.Checkpoint) *int { return &c.LocalKeep }, intKind{1, 100}, "Default of checkpoint.retained."),
	of("fsync", func(c *boards.Checkpoint) *string { return &c.Fsync }, words("tested", "assumed", "doubtful"), "Whether what was flushed is known to survive a power cut.", required()),
}}}

var boardFlashObject = &object[boards.Flash]{section: section{what: "flash", list: []*setting{
	of("device", func(f *boards.Flash) *string { return &f.Device }, devKind, "Its name in /dev. Left out: the one that state_dir lies on."),
	of("tbw", func(f *boards.Flash) *int64 { return &f.TBW }, sizeTaken, "Bytes that may be written in its life."),
	of("daily_budget", func(f *boards.Flash) *int64 { return &f.DailyBudget }, sizeTaken, "Bytes that may be written in a day."),
	of("max_linger_ms", func(f *boards.Flash) *int { return &f.MaxLingerMs }, intKind{0, 10000}, "Longest journal.linger that a budget may lead to, in milliseconds."),
	of("max_checkpoint_interval_s", func(f *boards.Flash) *int { return &f.MaxCheckpointIntervalS }, intKind{0, 86400}, "Longest checkpoint.interval that a budget may lead to, in seconds."),
	of("governor", func(f *boards.Flash) *string { return &f.Governor }, words("on", "off"), "Whether a budget leads to longer ones."),
}}}

var sourceOfProfile = &object[boards.Source]{section: section{what: "a source", list: []*setting{
	of("of", func(s *boards.Source) *[]string { return &s.Of }, listOf[string]{of: devKind, least: 1}, "Fields of the profile that are known from it.", required()),
	of("how", func(s *boards.Source) *string { return &s.How }, words("ran", "read", "inferred"), "ran: weir ran on it. read: it stands there. inferred: it follows, or is remembered; nobody has looked.", required()),
	of("from", func(s *boards.Source) *string { return &s.From }, factKind, "What it is: a file of Linux, a page, a reason.", required()),
}}}

// unsourced are the fields that need no source.
var unsourced = []string{"id", "name", "tested", "sources"}

// checkProfile keeps a profile honest: every fact has a source, and every source is of a fact that is there.
func checkProfile(r *reader, n *node, p *boards.Profile) {
	var known []string
	for _, s := range p.Sources {
		known = append(known, s.Of...)
	}
	var keys []string
	for _, e := range n.entries {
		keys = append(keys, e.key.text)
		if name := e.key.text; !slices.Contains(unsourced, name) && !slices.Contains(known, name) && len(e.value.entries)+len(e.value.items)+len(e.value.text) > 0 {
			r.problems.Add(e.key.pos, "", "each field is in the list of of a source", "nothing tells where %s is from", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(keys, name) {
			r.problems.Add(n.pos, "", "sources name fields of the profile", "a source is of %s, which the profile does not have", quote(name))
		}
	}
	if p.GOARM64 != "" && p.Arch != "arm64" || p.GOARM != "" && p.Arch != "arm" {
		r.problems.Add(n.pos, "", "goarm64 goes with arch arm64, goarm with arm", "the architecture level is not one of %s", p.Arch)
	}
	if l := p.Limits; l.High.Bytes > l.Max.Bytes || l.High.Percent > l.Max.Percent || l.GOMEMLIMIT > 0 && l.GOMEMLIMIT >= l.High.Bytes {
		r.problems.Add(n.pos, "", "GOMEMLIMIT is below MemoryHigh, which is at most MemoryMax", "the limits contradict each other")
	}
	if f := p.Flash; f.MaxLingerMs > 0 && f.MaxLingerMs < p.Journal.LingerMs || f.MaxCheckpointIntervalS > 0 && f.MaxCheckpointIntervalS < p.Checkpoint.IntervalS {
		r.problems.Add(n.pos, "", "what the flash may lead to is not below the default", "the longest linger or checkpoint interval is below the default")
	}
}
