package config

import "time"

// Apply is how a changed config comes into force while the agent runs.
type Apply struct {
	Probation time.Duration
}

var applySetting = set("apply", at(func(c *Config) *Apply { return &c.Apply }).is(applyObject),
	"How a changed config comes into force while the agent runs (docs/apply.md).")

var applyObject = &object[Apply]{section: section{what: "apply", list: []*setting{
	set("probation", at(func(a *Apply) *time.Duration { return &a.Probation }).is(durationKind{most: 24 * time.Hour}),
		"How long changed pipelines must run, with their results held back, before the change holds. One that fails within it is gone back from.", byDefault("1m")),
}}}
