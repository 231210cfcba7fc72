package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
)

func handoverCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "handover", Short: "What a device still has whose place another one has taken",
		Long: `A device whose place another has taken is fenced: it is connected to no broker and runs no pipeline, also after a restart, and keeps its data. These
commands are for it, with the agent stopped.`,
	}
	c.AddCommand(exportHandoverCommand(o), retakeCommand(o))
	return c
}

func exportHandoverCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "export DIRECTORY", Short: "Write what this device has not delivered: results, and messages that are in no result yet",
		Long: `Makes the directory with three files. results.jsonl: results that no upstream has confirmed, each with the stream, generation and sequence that name it
for ever. records.jsonl: messages behind the newest checkpoint, as weir replay --input reads them. handover.json: what this device is, and the counts.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			s, err := agent.ExportHandover(c.Context(), cfg, agent.Options{Logger: newLogger(&cfg.Log)}, dir)
			if err != nil {
				return err
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(s)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d results that no upstream confirmed, %d messages that are in no result, %d bytes in %s\n", s.Results, s.Records, s.Bytes, dir)
			return err
		},
	}
}

func retakeCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "retake", Short: "Make this device its gateway again: the one that has taken its place is fenced",
		Long: `Takes a new incarnation, above that of the device that runs in its place, which stops when it learns of it. The pipelines go on from their own checkpoints; their
sinks begin a new generation, in which what they had not delivered comes first.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			inc, err := agent.Retake(c.Context(), cfg)
			if err != nil {
				return err
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]string{"incarnation": inc.String()})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "this device is incarnation %s of the gateway; the next start goes on\n", inc)
			return err
		},
	}
}
