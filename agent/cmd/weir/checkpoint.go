package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
)

func checkpointCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "checkpoint", Short: "List the retained checkpoints, or make one now"}
	c.AddCommand(
		&cobra.Command{
			Use: "ls PIPELINE", Short: "List the retained checkpoints, oldest first", Args: usageArgs(cobra.ExactArgs(1)),
			RunE: func(c *cobra.Command, args []string) error {
				client, err := o.client()
				if err != nil {
					return err
				}
				list, err := client.Checkpoints(c.Context(), args[0])
				if err != nil {
					return err
				}
				return o.printCheckpoints(c, list)
			},
		},
		&cobra.Command{
			Use: "trigger PIPELINE", Short: "Make a checkpoint now and wait until it is on flash", Args: usageArgs(cobra.ExactArgs(1)),
			RunE: func(c *cobra.Command, args []string) error {
				client, err := o.client()
				if err != nil {
					return err
				}
				info, err := client.TriggerCheckpoint(c.Context(), args[0])
				if err != nil {
					return err
				}
				return o.printCheckpoints(c, []api.CheckpointInfo{info})
			},
		},
	)
	return c
}

func (o *options) printCheckpoints(c *cobra.Command, list []api.CheckpointInfo) error {
	if o.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(list)
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tPOSITION\tTIME\tBYTES\tKIND")
	for _, i := range list {
		fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%s\n", i.ID, i.Position, i.Time.UTC().Format(time.RFC3339), i.Bytes, i.Kind)
	}
	return t.Flush()
}

func pipelineCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "pipeline", Short: "List, stop, start or restart pipelines of the running agent"}
	c.AddCommand(&cobra.Command{
		Use: "ls", Short: "List the pipelines", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			s, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(s.Pipelines)
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tSTATE\tPOSITION\tLAG\tRESTARTS\tUUID")
			for _, p := range s.Pipelines {
				fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", p.Name, p.State, p.Position, p.Lag, p.Restarts, p.UUID)
			}
			return t.Flush()
		},
	})
	for verb, short := range map[string]string{
		"start":   "Start a stopped or failed pipeline from its newest checkpoint",
		"restart": "Stop and start",
	} {
		c.AddCommand(&cobra.Command{
			Use: verb + " PIPELINE", Short: short, Args: usageArgs(cobra.ExactArgs(1)),
			RunE: func(c *cobra.Command, args []string) error {
				client, err := o.client()
				if err != nil {
					return err
				}
				return client.Control(c.Context(), args[0], verb)
			},
		})
	}
	c.AddCommand(stopCommand(o))
	return c
}

// usageArgs makes a wrong number of arguments an error of usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
		}
		return nil
	}
}
