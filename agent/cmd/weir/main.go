// Command weir is the agent and its tools in one binary.
//
// Exit codes: 0 done; 1 it failed; 2 wrong usage or wrong config, nothing was touched; 3 no agent is running; 4 state_dir is in
// use by another weir process; 5 no pipeline has a valid checkpoint (weir run); 6 a plan differs from a savepoint's and loses nothing, 7 it would lose
// state (weir plan, weir apply); 8 a changed config failed within its probation and was gone back from (weir apply); 9 no profile is of this machine (weir boards
// detect); 10 a roll-out waits for somebody (weir fleet).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/systemd"
)

// The exit codes.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitNotRunning = 3
	exitLocked     = 4
	exitRefused    = 5
	exitGoneBack   = 8
	exitNoBoard    = 9
)

// usageError marks errors of the caller: nothing was touched.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return
	}
	text := err.Error()
	if systemd.JournalConnected() { // each line with the priority of an error (sd-daemon(3))
		text = "<3>" + strings.ReplaceAll(text, "\n", "\n<3>")
	}
	fmt.Fprintln(os.Stderr, text)
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, api.ErrNotRunning):
		return exitNotRunning
	case errors.Is(err, statedir.ErrLocked):
		return exitLocked
	case errors.Is(err, agent.ErrRefused):
		return exitRefused
	case errors.Is(err, errGoneBack):
		return exitGoneBack
	case errors.Is(err, errNoBoard):
		return exitNoBoard
	case errors.Is(err, errAttention):
		return exitAttention
	case errors.Is(err, errPlanChanges):
		return exitChanges
	case errors.Is(err, savepoints.ErrDropsState):
		return exitDrops
	}
	return exitFailed
}

// options are the flags that every command has.
type options struct {
	config string
	output string
	socket string
}

func root() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "weir",
		Short: "Stateful stream processing on the gateway: MQTT in, windows and alarms, exactly once out",
		Long: `weir reads MQTT, runs stateful pipelines, snapshots them to flash and delivers every result upstream exactly once,
through kill -9, power cuts, broker restarts and link loss.

Start with "weir check -c weir.yaml", then "weir run -c weir.yaml"; "weir status" shows what it does.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.PersistentFlags()
	f.StringVarP(&o.config, "config", "c", "/etc/weir/weir.yaml", "config file")
	f.StringVarP(&o.output, "output", "o", "", "output format: text, json (replay: jsonl, csv)")
	f.StringVar(&o.socket, "socket", "", "the agent's socket (default: that of the config)")
	c.AddCommand(
		runCommand(o), checkCommand(o), replayCommand(o), testCommand(o), statusCommand(o), pipelineCommand(o), checkpointCommand(o), savepointCommand(o), centralCommand(o), keysCommand(o), releaseCommand(o), fleetCommand(o), stateCommand(o), planCommand(o), applyCommand(o), upgradeCommand(o), selftestCommand(o),
		deadletterCommand(o), tapCommand(o), journalCommand(o), handoverCommand(o), takeoverCommand(o), fsckCommand(o), boardsCommand(o), schemaCommand(), compatCommand(o), versionCommand(o),
	)
	return c
}
