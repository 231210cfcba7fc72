//go:build !nocentral

package config

import "time"

// upgradeSettings are what the top of the file has for fleets and upgrades.
var upgradeSettings = []*setting{
	set("fleet", at(func(c *Config) *Fleet { return &c.Fleet }).is(fleetObject), "Who may direct this gateway (docs/upgrade.md)."),
	set("upgrade", at(func(c *Config) *Upgrade { return &c.Upgrade }).is(upgradeObject), "How another program takes over, and goes back by itself (docs/upgrade.md)."),
}

var fleetObject = &object[Fleet]{section: section{what: "fleet", list: []*setting{
	set("root", at(func(f *Fleet) *string { return &f.Root }).is(fileKind),
		"The fleet's root document (docs/keys.md): its keys say which releases and orders are genuine. Left out: none is, and nothing can be installed."),
}}}

var upgradeObject = &object[Upgrade]{section: section{what: "upgrade", list: []*setting{
	set("backend", at(func(u *Upgrade) *string { return &u.Backend }).is(choiceKind{words: []string{BackendNone, BackendSelf}}),
		"What puts a program into place. self: this binary, in two slots, by weir-boot under systemd. none: no upgrades; the package manager's business.", byDefault(BackendNone)),
	set("probation", at(func(u *Upgrade) *time.Duration { return &u.Probation }).is(durationKind{most: 25 * time.Minute}),
		"How long a new program must run, with its results held back, before it stays. At least 2 minutes hold whatever is set.", byDefault("2m")),
	set("probation_bytes", at(func(u *Upgrade) *int64 { return &u.ProbationBytes }).is(sizeKind{least: 64 << 10}),
		"Most bytes of results that are held back in a probation. More end it: the new program stays if it has shown all that it must, else it is gone back from.", byDefault("64MiB")),
	set("tries", at(func(u *Upgrade) *int { return &u.Tries }).is(intKind{1, 10}), "Starts that a new program has until it has shown that it works.", byDefault("3")),
	set("min_power", at(func(u *Upgrade) *int { return &u.PowerMin }).is(intKind{0, 100}),
		"Percent of its battery that a gateway on battery must have left to begin. Where nothing tells of a battery it does not count.", byDefault("30")),
}}}
