package config

import "time"

// Apply is how a changed config comes into force while the agent runs.
type Apply struct {
	Probation time.Duration
}

var applySetting = set("apply", applyObject, func(c *Config) *Apply { return &c.Apply },
	"How a changed config comes into force while the agent runs (docs/apply.md).")

var applyObject = &object[Apply]{what: "apply", list: []*setting{
	set("probation", durationKind{most: 24 * time.Hour}, func(a *Apply) *time.Duration { return &a.Probation },
		"How long changed pipelines must run, with their results held back, before the change holds. One that fails within it is gone back from.", byDefault("1m")),
}}
