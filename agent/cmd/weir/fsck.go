package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
)

func fsckCommand(o *options) *cobra.Command {
	repair := false
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Check journal, checkpoints, outboxes and savepoints of a stopped agent, and repair them",
		Long: `Reads everything in state_dir through recovery, as a start would, and changes nothing. With --repair it lets the recovery write, sets damaged
checkpoints, savepoints and files aside, and makes the catalog and the registry anew from what is whole. Nothing is deleted. On another board, as with a copy, no incarnation is
taken: it says what a start there would do. Exit code 0: all is well, or
with --repair: the agent and all its pipelines start; 1: else. Each finding is on a line with what it means.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			report, err := agent.Check(c.Context(), cfg, repair)
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
				for _, line := range report.Repaired {
					fmt.Fprintln(c.OutOrStdout(), "REPAIRED:", line)
				}
				for _, line := range report.Stops {
					fmt.Fprintln(c.OutOrStdout(), "STOPS:", line)
				}
			}
			switch {
			case len(report.Stops) > 0:
				return fmt.Errorf("fsck: %s", report.Stops[0])
			case len(report.Damage) > 0 && !repair:
				return fmt.Errorf("fsck: %d damaged places", len(report.Damage))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "repair what can be repaired without losing anything that counts")
	return c
}
