package config

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
)

// Checkpoint are the settings of a pipeline's checkpoints; names and defaults are Flink's where it has them.
type Checkpoint struct {
	Interval          time.Duration
	EveryRecords      int // 0: by time alone
	Timeout           time.Duration
	MinPause          time.Duration
	MaxConcurrent     int
	TolerableFailures int // -1: any number
	AlarmAfter        int
	IdleInterval      time.Duration
	Retained          int
	Mode              string // exactly-once, at-least-once
	Dir               string // "": in state_dir
	Store             string // log, bbolt, pebble
	RebaseRatio       float64
}

// Restart is Flink's restart strategy. Only the parameters of Strategy mean something.
type Restart struct {
	Strategy string // none, fixed-delay, failure-rate, exponential-delay
	Failover string // full, region
	// fixed-delay
	Attempts int
	// fixed-delay and failure-rate
	Delay time.Duration
	// failure-rate
	FailureRateInterval    time.Duration
	MaxFailuresPerInterval int
	// exponential-delay
	InitialBackoff             time.Duration
	MaxBackoff                 time.Duration
	BackoffMultiplier          float64
	ResetBackoffThreshold      time.Duration
	JitterFactor               float64
	AttemptsBeforeResetBackoff int // 0: no limit
}

var checkpointObject = &object[Checkpoint]{section: section{what: "checkpoint", unknown: notYet(checkpointNotYet), list: []*setting{
	set("interval", at(func(c *Checkpoint) *time.Duration { return &c.Interval }).is(durationKind{least: 10 * time.Millisecond, most: 30 * 24 * time.Hour}),
		"Time between checkpoints. A result with commit: checkpoint waits up to this long; a restart replays up to this much.",
		byDefault("10s"), byBoard(), flink("execution.checkpointing.interval")),
	set("every_records", at(func(c *Checkpoint) *int { return &c.EveryRecords }).is(intKind{0, math.MaxInt32}),
		"Checkpoint after so many records as well. 0: by time alone.", byDefault("0")),
	set("timeout", at(func(c *Checkpoint) *time.Duration { return &c.Timeout }).is(durationKind{least: 100 * time.Millisecond, most: 24 * time.Hour}),
		"A checkpoint that takes longer is given up; its changes go into the next one.", byDefault("10m"), flink("execution.checkpointing.timeout")),
	set("min_pause", at(func(c *Checkpoint) *time.Duration { return &c.MinPause }).is(durationKind{most: 24 * time.Hour}),
		"Least time between the end of a checkpoint and the next.", byDefault("0s"), flink("execution.checkpointing.min-pause")),
	set("max_concurrent", at(func(c *Checkpoint) *int { return &c.MaxConcurrent }).is(intKind{1, 1}),
		"Checkpoints under way at once; 1 is the only value.", byDefault("1"), flink("execution.checkpointing.max-concurrent-checkpoints")),
	set("tolerable_failures", at(func(c *Checkpoint) *int { return &c.TolerableFailures }).is(intKind{-1, math.MaxInt32}),
		"Failed checkpoints in a row before the pipeline fails and is restarted. -1: never, the next interval tries again (Flink's default is 0: the first one fails it).", byDefault("-1"), flink("execution.checkpointing.tolerable-failed-checkpoints")),
	set("alarm_after", at(func(c *Checkpoint) *int { return &c.AlarmAfter }).is(intKind{1, math.MaxInt32}),
		"Failed checkpoints in a row before the alarm is raised, in log, status and metrics.", byDefault("3")),
	set("idle_interval", at(func(c *Checkpoint) *time.Duration { return &c.IdleInterval }).is(durationKind{least: 10 * time.Millisecond, most: 30 * 24 * time.Hour}),
		"While nothing but the position moves, a checkpoint is written at most so often.", byDefault("5m")),
	set("retained", at(func(c *Checkpoint) *int { return &c.Retained }).is(intKind{1, 100}),
		"Checkpoints that are kept. The journal is kept back to the oldest, so that falling back to it always works.", byDefault("3"), byBoard(),
		flink("execution.checkpointing.num-retained"), flink("state.checkpoints.num-retained")),
	set("mode", at(func(c *Checkpoint) *string { return &c.Mode }).is(choiceKind{words: []string{"exactly-once", "at-least-once"}, means: map[string]string{"EXACTLY_ONCE": "exactly-once", "AT_LEAST_ONCE": "at-least-once"}}),
		"at-least-once: results leave at once, without waiting for the journal; they may repeat after a crash.", byDefault("exactly-once"), flink("execution.checkpointing.mode")),
	set("dir", at(func(c *Checkpoint) *string { return &c.Dir }).is(stringKind{pathKind}),
		"Directory of the checkpoints. Left out: in state_dir.", flink("execution.checkpointing.dir"), flink("state.checkpoints.dir")),
	set("store", at(func(c *Checkpoint) *string { return &c.Store }).is(choiceKind{words: []string{"log", "bbolt", StorePebble}}),
		"log: frames in recycled segments, least flash wear. bbolt: one file that standard tools open, for small state. pebble: a Pebble directory, with the backend pebble only.", byDefault("log")),
	set("rebase_ratio", at(func(c *Checkpoint) *float64 { return &c.RebaseRatio }).is(floatKind{1, 100}),
		"When the deltas exceed so many times the base, a new base is made.", byDefault("2")),
}}}

var restartObject = &object[Restart]{section: section{what: "restart", list: []*setting{
	set("strategy", at(func(r *Restart) *string { return &r.Strategy }).is(choiceKind{words: restartStrategies,
		means: map[string]string{"off": "none", "disable": "none", "fixeddelay": "fixed-delay", "failurerate": "failure-rate", "exponentialdelay": "exponential-delay"}}), "What happens after a failure of the pipeline.", byDefault("exponential-delay"),
		flink("restart-strategy.type"), flink("restart-strategy")),
	failoverSetting,
	set("attempts", at(func(r *Restart) *int { return &r.Attempts }).is(intKind{1, math.MaxInt32}),
		"fixed-delay: restarts before the pipeline stays down.", byDefault("1"), flink("restart-strategy.fixed-delay.attempts")),
	set("delay", at(func(r *Restart) *time.Duration { return &r.Delay }).is(durationKind{most: 24 * time.Hour}),
		"fixed-delay, failure-rate: time before a restart.", byDefault("1s"), flink("restart-strategy.fixed-delay.delay"), flink("restart-strategy.failure-rate.delay")),
	set("failure_rate_interval", at(func(r *Restart) *time.Duration { return &r.FailureRateInterval }).is(durationKind{least: time.Millisecond}),
		"failure-rate: the interval in which failures are counted.", byDefault("1m"), alias("failure-rate-interval"), flink("restart-strategy.failure-rate.failure-rate-interval")),
	set("max_failures_per_interval", at(func(r *Restart) *int { return &r.MaxFailuresPerInterval }).is(intKind{1, math.MaxInt32}),
		"failure-rate: more failures than this in the interval, and the pipeline stays down.", byDefault("1"), alias("max-failures-per-interval"), flink("restart-strategy.failure-rate.max-failures-per-interval")),
	set("initial_backoff", at(func(r *Restart) *time.Duration { return &r.InitialBackoff }).is(durationKind{least: time.Millisecond}),
		"exponential-delay: time before the first restart.", byDefault("1s"), alias("initial-backoff"), flink("restart-strategy.exponential-delay.initial-backoff")),
	set("max_backoff", at(func(r *Restart) *time.Duration { return &r.MaxBackoff }).is(durationKind{least: time.Millisecond}),
		"exponential-delay: longest time before a restart.", byDefault("1m"), alias("max-backoff"), flink("restart-strategy.exponential-delay.max-backoff")),
	set("backoff_multiplier", at(func(r *Restart) *float64 { return &r.BackoffMultiplier }).is(floatKind{1, 100}),
		"exponential-delay: the time grows by this factor.", byDefault("1.5"), alias("backoff-multiplier"), flink("restart-strategy.exponential-delay.backoff-multiplier")),
	set("reset_backoff_threshold", at(func(r *Restart) *time.Duration { return &r.ResetBackoffThreshold }).is(durationKind{least: time.Millisecond}),
		"exponential-delay: so long without a failure, and the time is short again.", byDefault("1h"), alias("reset-backoff-threshold"), flink("restart-strategy.exponential-delay.reset-backoff-threshold")),
	set("jitter_factor", at(func(r *Restart) *float64 { return &r.JitterFactor }).is(floatKind{0, 1}),
		"exponential-delay: the time varies by this part of itself.", byDefault("0.1"), alias("jitter-factor"), flink("restart-strategy.exponential-delay.jitter-factor")),
	set("attempts_before_reset_backoff", at(func(r *Restart) *int { return &r.AttemptsBeforeResetBackoff }).is(intKind{0, math.MaxInt32}),
		"exponential-delay: restarts before the pipeline stays down. 0: no limit.", byDefault("0"), alias("attempts-before-reset-backoff"), flink("restart-strategy.exponential-delay.attempts-before-reset-backoff")),
}}, check: checkRestart}

var restartStrategies = []string{"none", "fixed-delay", "failure-rate", "exponential-delay"}

// restartParameters lists what each strategy reads.
var restartParameters = map[string][]string{
	"none":              nil,
	"fixed-delay":       {"attempts", "delay"},
	"failure-rate":      {"delay", "failure_rate_interval", "max_failures_per_interval"},
	"exponential-delay": {"initial_backoff", "max_backoff", "backoff_multiplier", "reset_backoff_threshold", "jitter_factor", "attempts_before_reset_backoff"},
}

func checkRestart(r *reader, n *node, v *Restart) {
	of := restartParameters[v.Strategy]
	for _, e := range n.entries {
		key := strings.ReplaceAll(e.key.text, "-", "_")
		if !slices.Contains(of, key) && slices.ContainsFunc(restartStrategies, func(s string) bool { return slices.Contains(restartParameters[s], key) }) {
			allowed := "it has no parameters"
			if len(of) > 0 {
				allowed = "its parameters are " + strings.Join(of, ", ")
			}
			r.problems.Add(e.key.pos, "", allowed, "%s is no parameter of the strategy %s", quote(e.key.text), v.Strategy)
		}
	}
	if v.Strategy == "exponential-delay" && v.MaxBackoff < v.InitialBackoff {
		r.problems.Add(n.pos, "", "max_backoff is at least initial_backoff", "max_backoff %s is below initial_backoff %s", FormatDuration(v.MaxBackoff), FormatDuration(v.InitialBackoff))
	}
}

var pipelineObject = &object[Pipeline]{place: func(p *Pipeline, at plan.Pos) { p.Pos = at }, section: section{what: "a pipeline", rewrite: unflink, list: []*setting{
	set("start", at(func(p *Pipeline) *start { return &p.start }).is(startKind{}),
		"Where a pipeline without a checkpoint begins: behind the newest record of the journal, at the oldest, or with the state of a savepoint FILE (Flink's -s). Read at the very first start, and never again.", byDefault("latest")),
	set("parallelism", at(func(p *Pipeline) *int { return &p.Parallelism }).is(parallelismKind{}),
		"In how many instances keyed steps run, by key group. auto: one per core. The results do not depend on it, and it may change at any restart.",
		byDefault("1"), flink("parallelism.default")),
	set("checkpoint", at(func(p *Pipeline) *Checkpoint { return &p.Checkpoint }).is(checkpointObject), "Checkpoints."),
	set("state", at(func(p *Pipeline) *State { return &p.State }).is(stateObject), "State of the steps."),
	set("restart", at(func(p *Pipeline) *Restart { return &p.Restart }).is(restartObject), "Restarts after a failure."),
	set("tolerate", at(func(p *Pipeline) *int { return &p.Tolerate }).is(intKind{0, 1000}),
		"How often a record at which a step or a decoder fails is tried, with a restart between, before it becomes a dead letter and the pipeline goes on without it. 0: no limit, the pipeline fails with it each time.", byDefault("3")),
	set("dead_letters", at(func(p *Pipeline) *DeadLetters { return &p.Dead }).is(deadLettersObject), "What the pipeline could not use: how much is kept, and where else it goes."),
	set("on_full", at(func(p *Pipeline) *string { return &p.OnFull }).is(choiceKind{words: []string{"hold", "detach"}}),
		"What happens when this pipeline lags more than lag_limit, or lags and the journal is full: hold (it keeps its records; status says so), or detach (the journal lets it go; it stops with the lost range named and goes on with weir run --accept-gap).", byDefault("hold")),
	set("lag_limit", at(func(p *Pipeline) *int64 { return &p.LagBytes }).is(sizeKind{none: "none"}),
		"Unread journal bytes, estimated by the share of the records, above which on_full acts. none: only a full journal counts.", byDefault("none")),
	set("steps", at(func(p *Pipeline) *[]*plan.StepSpec { return &p.Steps }).is(listOf[*plan.StepSpec]{of: optional[plan.StepSpec]{stepObject}}),
		"What is done with the records."),
	set("sinks", at(func(p *Pipeline) *[]*plan.SinkSpec { return &p.Sinks }).is(listOf[*plan.SinkSpec]{of: optional[plan.SinkSpec]{sinkObject}, least: 1}),
		"Where results go. Each is a stream of its own.", required()),
}}, check: checkStores}

// complete hands the plan what it needs of the pipeline's other settings.
func (p *Pipeline) complete(c *Config) {
	p.Start, p.StartFile = p.start.at, p.start.file
	p.Spec.State = plan.StateSpec{TTLNs: int64(p.State.TTL), MaxKeys: p.State.MaxKeys}
	p.AtLeastOnce = p.Checkpoint.Mode == "at-least-once"
	p.CommitIntervalMs = p.Checkpoint.Interval.Milliseconds()
	p.Spec.Sources = make([]*plan.SourceSpec, len(c.Sources))
	for i, s := range c.Sources {
		p.Spec.Sources[i] = &s.SourceSpec
	}
	for _, s := range p.Sinks {
		if s.File != nil {
			completeFile(s.File, c.Security.FileRoot.Value)
		}
		if s.Objects != nil {
			completeObjects(s.Objects, c.Security.FileRoot.Value)
		}
	}
}

// Snapshot gives the settings to the coordinator. Store and Dir choose the store beside it.
func (c Checkpoint) Snapshot() snapshot.Config {
	s := snapshot.Default()
	s.Interval, s.EveryRecords, s.Timeout, s.MinPause = c.Interval, uint64(c.EveryRecords), c.Timeout, c.MinPause
	s.MaxConcurrent, s.TolerableFailures, s.AlarmAfter, s.IdleInterval = c.MaxConcurrent, c.TolerableFailures, c.AlarmAfter, c.IdleInterval
	s.Retained, s.Mode, s.RebaseRatio = c.Retained, snapshot.Mode(c.Mode), c.RebaseRatio
	return s
}
