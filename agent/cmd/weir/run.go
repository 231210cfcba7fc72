package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
)

func runCommand(o *options) *cobra.Command {
	var allowEmpty []string
	var trustClock bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: `Runs the agent until SIGTERM or SIGINT: then it stops reading, acknowledges what is durable, makes a last checkpoint of each
pipeline and ends with code 0. As a systemd service use Type=notify.

When no pipeline can run and starting again would not help (all checkpoints damaged, or a plan that does not fit them) it ends with code 5:
set RestartPreventExitStatus=2 5 in the unit.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			logger := newLogger(&cfg.Log)
			for _, w := range cfg.Warnings {
				logger.Warn("config", "what", w.String())
			}
			limitMemory()
			allowed := map[string]bool{}
			for _, name := range allowEmpty {
				if _, err := pickPipeline(cfg, name); err != nil {
					return usageError{fmt.Errorf("--allow-empty: %w", err)}
				}
				allowed[name] = true
			}
			a, err := agent.New(cfg, agent.Options{Logger: logger, AllowEmpty: allowed, TrustClock: trustClock})
			if err != nil {
				return err
			}
			return a.Run(c.Context())
		},
	}
	c.Flags().StringSliceVar(&allowEmpty, "allow-empty", nil, "pipelines that may start empty when none of their checkpoints is valid")
	c.Flags().BoolVar(&trustClock, "trust-clock", false, "take the wall clock for right (where nothing tells that it is synchronised)")
	return c
}

func newLogger(l *config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(l.Level))); err != nil {
		level = slog.LevelInfo // the config was checked; an empty one is a test's
	}
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
