package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/systemd"
	"github.com/weirstream/weir/boards"
)

func runCommand(o *options) *cobra.Command {
	var allowEmpty, acceptGap []string
	var trustClock, newBoard, controlOnly bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: `Runs the agent until SIGTERM or SIGINT: then it stops reading, acknowledges what is durable, makes a last checkpoint of each
pipeline and ends with code 0. As a systemd service use Type=notify.

When no pipeline has a valid checkpoint any more, it says so and ends with code 5, since starting again would not help: set
RestartPreventExitStatus=2 4 5 in the unit.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			if missing := cfg.MissingBrokers(); len(missing) > 0 {
				return usageError{missing.Err()}
			}
			// A panic, and the SIGABRT of the service manager's watchdog, would end with code 2, which is that of a wrong config: by a signal, they are no code at all.
			debug.SetTraceback("crash")
			logger := newLogger(&cfg.Log)
			for _, w := range cfg.Warnings {
				logger.Warn("config", "what", w.String())
			}
			machine := boards.Read("/")
			if err := cfg.Settle(machine); err != nil {
				return err
			}
			logger.Info("board", "is", cfg.On.ID, "why", cfg.On.Why)
			if w := cfg.On.Foreign; w != "" {
				logger.Warn("config", "what", w)
			}
			limitMemory(cfg, machine, logger)
			empty, err := named(cfg, "--allow-empty", allowEmpty)
			if err != nil {
				return err
			}
			gap, err := named(cfg, "--accept-gap", acceptGap)
			if err != nil {
				return err
			}
			if err := systemd.Pace(c.Context(), logger); err != nil {
				return nil // stopped while it waited
			}
			ctx, end := context.WithCancel(c.Context())
			defer end()
			backend, err := openBackend(cfg, end)
			if err != nil {
				return err
			}
			a, err := agent.New(cfg, agent.Options{Logger: logger, AllowEmpty: empty, AcceptGap: gap, TrustClock: trustClock, NewBoard: newBoard, Machine: &machine, Backend: backend, ControlOnly: controlOnly})
			if err != nil {
				return err
			}
			if err := runReloading(ctx, a); err != nil {
				return err
			}
			systemd.Lasted()
			return nil
		},
	}
	c.Flags().StringSliceVar(&allowEmpty, "allow-empty", nil, "pipelines that may start empty when none of their checkpoints is valid")
	c.Flags().StringSliceVar(&acceptGap, "accept-gap", nil, "pipelines that may go on behind records that a full journal let go")
	c.Flags().BoolVar(&trustClock, "trust-clock", false, "take the wall clock for right (where nothing tells that it is synchronised)")
	c.Flags().BoolVar(&controlOnly, "control-only", false, "rescue: no broker is connected and no pipeline runs; weir status tells why, and another program may be installed")
	c.Flags().BoolVar(&newBoard, "new-board", false, "state_dir was moved to this board: take a new incarnation, which stops whoever runs with a copy of it")
	return c
}

// runReloading runs the agent; SIGHUP has it apply its config file again.
func runReloading(ctx context.Context, a *agent.Agent) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	reloading, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-hup:
				a.Reload(reloading)
			case <-reloading.Done():
				return
			}
		}
	})
	group.Go(func() { shedIdle(reloading, a.Ready, a.Worked, shedMemory) })
	err := a.Run(ctx)
	stop()
	group.Wait()
	return err
}

// named checks that a flag's values are pipelines of the config.
func named(cfg *config.Config, flag string, names []string) (map[string]bool, error) {
	set := map[string]bool{}
	for _, name := range names {
		if _, err := cfg.Pick(name, "--name"); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", flag, err)}
		}
		set[name] = true
	}
	return set, nil
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
	text := slog.NewTextHandler(os.Stderr, options)
	if systemd.JournalConnected() {
		if journal, err := systemd.NewJournal("", level, text); err == nil { // else as text, which gets there as well
			return slog.New(journal)
		}
	}
	return slog.New(text)
}
