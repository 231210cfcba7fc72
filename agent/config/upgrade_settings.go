//go:build !nocentral

package config

import (
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

// upgradeSettings are what the top of the file has for fleets and upgrades.
var upgradeSettings = []*setting{
	set("fleet", at(func(c *Config) *Fleet { return &c.Fleet }).is(fleetObject), "Who may direct this gateway (docs/upgrade.md)."),
	set("upgrade", at(func(c *Config) *Upgrade { return &c.Upgrade }).is(upgradeObject), "How another program takes over, and goes back by itself (docs/upgrade.md)."),
}

var fleetObject = &object[Fleet]{place: func(f *Fleet, at plan.Pos) { f.Pos = at }, section: section{what: "fleet", list: []*setting{
	set("root", at(func(f *Fleet) *string { return &f.Root }).is(fileKind),
		"The fleet's root document (docs/keys.md): its keys say which releases and orders are genuine. Left out: none is, and nothing can be installed."),
	set("channel", at(func(f *Fleet) *plan.Text { return &f.Channel }).is(textKind{what: "the name of a channel", allowed: "1 to 64 of A-Z, a-z, 0-9, ., - and _", check: checkChannel}),
		"Whose roll-outs and commands this gateway follows (docs/commands.md); they lie in the central store. Left out: it looks for none."),
	set("poll", at(func(f *Fleet) *time.Duration { return &f.Poll }).is(durationKind{least: 10 * time.Second, most: 24 * time.Hour}),
		"How often it looks, give or take a fifth: four requests without bodies. With a doorbell that is connected, twelve times rarer.", byDefault("5m")),
	set("spread", at(func(f *Fleet) *time.Duration { return &f.Spread }).is(durationKind{most: 24 * time.Hour}),
		"Over how long the gateways of a channel spread what reaches all of them at once: each waits a part of it, drawn anew, behind a ring or a start before it looks, and before it fetches the program of a roll-out. No longer than poll. 0s: at once, which a store bears from a few thousand gateways.", byDefault("2m")),
	set("doorbell", at(func(f *Fleet) *Doorbell { return &f.Doorbell }).is(doorbellObject), "A topic that says that there is something new, so that it is looked soon (spread)."),
}}}

var doorbellObject = &object[Doorbell]{section: section{what: "the doorbell", list: []*setting{
	set("broker", at(func(d *Doorbell) *plan.Text { return &d.Broker }).is(textKind{what: "the name of a broker"}),
		"The broker, from the section brokers; its own connection, client id with -fleet behind.", required()),
	set("topic", at(func(d *Doorbell) *string { return &d.Topic }).is(stringKind{textKind{what: "a topic", allowed: "a topic without + and #", check: checkPlainTopic}}),
		"The topic. Its messages are numbers that rise, and nothing else is taken from them.", required()),
}}}

func checkChannel(s string) string {
	switch {
	case len(s) > 64:
		return "it is too long"
	case strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") != "":
		return "it has other characters"
	}
	return ""
}

// checkFleet looks at what goes together.
func (c *Config) checkFleet(problems *plan.Problems) {
	f := &c.Fleet
	if f.Channel.Value != "" {
		if f.Root == "" {
			problems.Add(f.Channel.Pos, "", "fleet.root, the root document", "a channel is of no use without the root: no document would count")
		}
		if c.Central.URL.Value == "" {
			problems.Add(f.Channel.Pos, "", "the section central", "the fleet's documents lie in the central store, and there is none")
		}
	}
	if b := f.Doorbell.Broker; b.Value != "" && !slices.ContainsFunc(c.Brokers, func(x *Broker) bool { return x.Name.Value == b.Value }) {
		var names []string
		for _, x := range c.Brokers {
			names = append(names, x.Name.Value)
		}
		problems.Add(b.Pos, suggest.Nearest(b.Value, names), "one of brokers: "+strings.Join(names, ", "), "there is no broker %s", quote(b.Value))
	}
}

var upgradeObject = &object[Upgrade]{section: section{what: "upgrade", list: []*setting{
	set("backend", at(func(u *Upgrade) *string { return &u.Backend }).is(choiceKind{words: []string{BackendNone, BackendSelf, BackendRauc}}),
		"What puts a program into place. self: this binary, in two slots, by weir-boot under systemd. rauc: the whole system, by RAUC. none: no upgrades; the package manager's business.", byDefault(BackendNone)),
	set("probation", at(func(u *Upgrade) *time.Duration { return &u.Probation }).is(durationKind{most: 25 * time.Minute}),
		"How long a new program must run, with its results held back, before it stays. At least 2 minutes hold whatever is set.", byDefault("2m")),
	set("probation_bytes", at(func(u *Upgrade) *int64 { return &u.ProbationBytes }).is(sizeKind{least: 64 << 10}),
		"Most bytes of results that are held back in a probation. More end it: the new program stays if it has shown all that it must, else it is gone back from.", byDefault("64MiB")),
	set("tries", at(func(u *Upgrade) *int { return &u.Tries }).is(intKind{1, 10}), "Starts that a new program has until it has shown that it works.", byDefault("3")),
	set("min_power", at(func(u *Upgrade) *int { return &u.PowerMin }).is(intKind{0, 100}),
		"Percent of its battery that a gateway on battery must have left to begin. Where nothing tells of a battery it does not count.", byDefault("30")),
}}}
