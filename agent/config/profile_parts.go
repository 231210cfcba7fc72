package config

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/boards"
)

// The sections of a board's profile.

var detectObject = &sectionKind{section{what: "detect", list: []*setting{
	member("dt_compatible", listOf[string]{of: devTreeKind, least: 1}, "Strings of the device tree's root, each of which means this board alone."),
	member("dmi", &recordsKind{of: dmiObject, least: 1}, "What firmware without a device tree says."),
}}}

// devTreeKind is VENDOR,MODEL (Devicetree Specification 0.4, 2.3.1).
var devTreeKind = stringKind{textKind{what: "VENDOR,MODEL as in a device tree", pattern: `^[^, ]+,[^ ]+$`, allowed: "VENDOR,MODEL as in a device tree", check: func(s string) string {
	if vendor, model, found := strings.Cut(s, ","); !found || vendor == "" || model == "" || strings.Contains(s, " ") {
		return "it is not of that form"
	}
	return ""
}}}

var dmiObject = &sectionKind{section{what: "a DMI name", list: []*setting{
	member("vendor", factKind, "sys_vendor in /sys/class/dmi/id.", required()),
	member("product", factKind, "product_name in /sys/class/dmi/id.", required()),
}}}

var storageObject = &sectionKind{section{what: "a storage", list: []*setting{
	member("kind", words("sd", "emmc", "nvme", "nor", "virtio"), "What it is.", required()),
	member("dev", devKind, "Its name in /dev.", required()),
	member("wear_node", pathName, "The file that tells its wear. Left out: nothing does."),
	member("by_partlabel", devKind, "Label of the partition for state_dir, where the board's images have one."),
	member("note", factKind, "What is special about it."),
}}}

// pathName is an absolute path.
var pathName = stringKind{pathKind}

var rtcObject = &sectionKind{section{what: "rtc", list: []*setting{
	member("present", words("fitted", "none", "probe"), "Whether there is one. probe: look at the machine.", required()),
	member("dev", pathName, "Its file."),
	member("driver", devKind, "Its driver in Linux."),
	member("battery", words("yes", "no", "option", "probe"), "Whether it goes on without power."),
}}}

var watchdogObject = &sectionKind{section{what: "watchdog", list: []*setting{
	member("dev", pathName, "Its file."),
	member("driver", devKind, "Its driver in Linux."),
	member("max_s", countKind, "Longest timeout, in seconds."),
	member("external_reset", boolKind{}, "It resets the whole board, not the processor alone."),
	member("service_s", intKind{5, 3600}, "WatchdogSec of the service.", required()),
}}}

var boardLEDsObject = &sectionKind{section{what: "leds", list: []*setting{
	member("status", devKind, "Shows that the agent runs, and how.", required()),
	member("alarm", devKind, "Lit while something is wrong."),
}}}

var powerObject = &sectionKind{section{what: "power", list: []*setting{
	member("supply_node", pathName, "Directory in /sys/class/power_supply.", required()),
	member("min_pct", intKind{0, 100}, "Charge below which no upgrade begins."),
}}}

var updaterObject = &sectionKind{section{what: "updater", list: []*setting{
	member("backend", words("self", "rauc"), "self: the agent's binary. rauc: the whole system.", required()),
	member("slots", intKind{1, 8}, "Places that a version may be in.", required()),
	member("bootloader", factKind, "What chooses between the slots of the system."),
	member("tries", intKind{1, 100}, "Starts that a new version has.", required()),
}}}

var limitsObject = &sectionKind{section{what: "limits", list: []*setting{
	member("GOMEMLIMIT", sizeKind{least: 16 << 20, most: 64 << 30}, "Soft limit of the collector. Left out: by the machine's memory and the cgroup."),
	member("MemoryHigh", memoryKind{}, "systemd.resource-control(5).", required()),
	member("MemoryMax", memoryKind{}, "systemd.resource-control(5).", required()),
	member("TasksMax", intKind{64, 4096}, "systemd.resource-control(5).", required()),
}}}

var boardJournalObject = &sectionKind{section{what: "journal", list: []*setting{
	member("linger_ms", intKind{1, 10000}, "Default of journal.linger, in milliseconds.", required()),
}}}

var boardCheckpointObject = &sectionKind{section{what: "checkpoint", list: []*setting{
	member("interval_s", intKind{1, 86400}, "Default of checkpoint.interval, in seconds."),
	member("local_keep", intKind{1, 100}, "Default of checkpoint.retained."),
	member("fsync", words("tested", "assumed", "doubtful"), "Whether what was flushed is known to survive a power cut.", required()),
}}}

var boardFlashObject = &sectionKind{section{what: "flash", list: []*setting{
	member("device", devKind, "Its name in /dev. Left out: the one that state_dir lies on."),
	member("tbw", sizeTaken, "Bytes that may be written in its life."),
	member("daily_budget", sizeTaken, "Bytes that may be written in a day."),
	member("max_linger_ms", intKind{0, 10000}, "Longest journal.linger that a budget may lead to, in milliseconds."),
	member("max_checkpoint_interval_s", intKind{0, 86400}, "Longest checkpoint.interval that a budget may lead to, in seconds."),
	member("governor", words("on", "off"), "Whether a budget leads to longer ones."),
}}}

var sourceOfProfile = &sectionKind{section{what: "a source", list: []*setting{
	member("of", listOf[string]{of: devKind, least: 1}, "Fields of the profile that are known from it.", required()),
	member("how", words("ran", "read", "inferred"), "ran: weir ran on it. read: it stands there. inferred: it follows, or is remembered; nobody has looked.", required()),
	member("from", factKind, "What it is: a file of Linux, a page, a reason.", required()),
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
