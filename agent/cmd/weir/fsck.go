package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
)

func fsckCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "fsck",
		Short: "Check journal, checkpoints, outboxes and savepoints of a stopped agent",
		Long: `Opens everything in state_dir through recovery, as a start would, and reads all of it. What is damaged is set aside, never
deleted. Exit code 0: all is well; 1: damage was found, each on a line with what it means.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			report, err := agent.Check(c.Context(), cfg)
			if err != nil {
				return err
			}
			if o.output == "json" {
				if err := json.NewEncoder(c.OutOrStdout()).Encode(report); err != nil {
					return err
				}
			} else {
				for _, line := range report.Lines {
					fmt.Fprintln(c.OutOrStdout(), line)
				}
				for _, line := range report.Damage {
					fmt.Fprintln(c.OutOrStdout(), "DAMAGE:", line)
				}
			}
			if len(report.Damage) > 0 {
				return fmt.Errorf("fsck: %d damaged places", len(report.Damage))
			}
			return nil
		},
	}
}
