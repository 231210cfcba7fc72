package config

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// Flash is what the device of state_dir is to endure, and how far the agent may go to spare it.
type Flash struct {
	Pos                plan.Pos
	Device             string        // "auto": the one that holds state_dir
	TBW                int64         // bytes that the device endures; 0: not known
	Years              int           // that it is to last
	DailyBudget        int64         // bytes; 0: from TBW and Years
	LingerMax          time.Duration // of the journal
	LingerImmediateMax time.Duration // the same while a sink has commit: immediate
	InflightMax        int           // messages that a broker leaves unacknowledged
	IntervalMax        time.Duration // between checkpoints
	Governor           string        // on, off
}

// Values of Flash.
const (
	FlashDeviceAuto = "auto"
	GovernorOn      = "on"
)

// deviceKind is a disk's name below /sys/block, or auto.
var deviceKind = textKind{what: "auto, or the name of a block device such as mmcblk0", pattern: "^[a-z][a-z0-9!_-]{0,31}$",
	allowed: "auto, or a name below /sys/block such as mmcblk0, nvme0n1 or sda", check: checkDevice}

func checkDevice(name string) string {
	for i, r := range name {
		letter, digit := 'a' <= r && r <= 'z', '0' <= r && r <= '9' || r == '!' || r == '_' || r == '-'
		if len(name) > 32 || !letter && (i == 0 || !digit) {
			return "it is no name of a block device"
		}
	}
	return ""
}

var flashSetting = set("flash", at(func(c *Config) *Flash { return &c.Flash }).is(flashObject),
	"How long the storage of this device is to last, and what may be stretched for it (docs/flash.md).")

var flashObject = &object[Flash]{place: func(f *Flash, at plan.Pos) { f.Pos = at }, section: section{what: "flash", list: []*setting{
	set("device", at(func(f *Flash) *string { return &f.Device }).is(stringKind{deviceKind}),
		"Disk whose writes are counted. auto: the one that holds state_dir. A name is for where that cannot be seen, such as in a container.", byDefault(FlashDeviceAuto), byBoard()),
	set("tbw", at(func(f *Flash) *int64 { return &f.TBW }).is(sizeKind{least: 1e9, most: 1 << 60, none: "unknown"}),
		"Bytes that the device endures, from its data sheet (TBW), such as 40TB. unknown: the years left are not told.", byDefault("unknown"), byBoard()),
	set("years", at(func(f *Flash) *int { return &f.Years }).is(intKind{1, 100}),
		"How long the device is to last. With tbw it gives the daily budget.", byDefault("10")),
	set("daily_budget", at(func(f *Flash) *int64 { return &f.DailyBudget }).is(sizeKind{least: 1 << 20, most: 1 << 50, none: "auto"}),
		"Bytes that the device may be given in 24 hours of running. auto: what tbw, the wear and years leave; without tbw there is none.", byDefault("auto"), byBoard()),
	set("max_linger", at(func(f *Flash) *time.Duration { return &f.LingerMax }).is(durationKind{most: 10 * time.Second}),
		"The governor stretches journal.linger so far and no further.", byDefault("1s"), byBoard()),
	set("max_linger_immediate", at(func(f *Flash) *time.Duration { return &f.LingerImmediateMax }).is(durationKind{most: 10 * time.Second}),
		"The same while a pipeline has a sink with commit: immediate, whose results wait for the journal.", byDefault("100ms")),
	set("max_inflight", at(func(f *Flash) *int { return &f.InflightMax }).is(intKind{2, 65535}),
		"Messages that the brokers leave unacknowledged (mosquitto: max_inflight_messages), of the broker with the fewest. A stretched linger ends when half of them have come: else the broker would wait for it, and its queue run over.", byDefault("20")),
	set("max_checkpoint_interval", at(func(f *Flash) *time.Duration { return &f.IntervalMax }).is(durationKind{least: time.Second, most: 24 * time.Hour}),
		"The governor stretches the checkpoint intervals so far and no further: results of commit: checkpoint wait for them.", byDefault("5m"), byBoard()),
	set("governor", at(func(f *Flash) *string { return &f.Governor }).is(choiceKind{words: []string{GovernorOn, "off"}}),
		"Whether linger and checkpoint intervals are stretched when the daily budget would be exceeded. off: it is only told.", byDefault(GovernorOn), byBoard()),
}}}
