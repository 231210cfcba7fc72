package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
)

// exitDrops tells scripts that a plan would lose state; exitChanges that something changes and nothing is lost.
const (
	exitChanges = 6
	exitDrops   = 7
)

// planChanges ends `weir plan` when the plan differs.
var errPlanChanges = errors.New("the plan differs; nothing is lost")

func planCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "plan NEW.yaml [SAVEPOINT]", Short: "Tell what a changed config would take over of a savepoint, or of the running pipelines; nothing is touched",
		Long: `Prints for each step that has state whether it keeps it, takes it over under a new uid (was:), starts empty, drops it, or cannot read it, and why.
Without a SAVEPOINT the running agent is asked, as weir apply --dry-run does. Exit code 0: the plan is the one that made the savepoint; 6: it differs and no state is lost; 7: it would lose state.`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return o.apply(c, args[0], api.ApplyOptions{DryRun: true})
			}
			cfg, err := config.Load(args[0])
			if err != nil {
				return usageError{err}
			}
			f, err := restore.ReadSavepoint(c.Context(), args[1])
			if err != nil {
				return err
			}
			defer f.Close()
			g := graphOf(cfg, f.Head.Pipeline)
			if g == nil {
				return usageError{fmt.Errorf("%s has no pipeline %q, of which the savepoint is", args[0], f.Head.Pipeline)}
			}
			v, err := savepoints.Judge(&f.Head, f.Counts(), g, false)
			if err := o.printVerdict(c, v); err != nil {
				return err
			}
			switch {
			case err != nil:
				return err
			case !v.Same:
				return errPlanChanges
			}
			return nil
		},
	}
}

// graphOf finds a pipeline, or one of its regions, by name.
func graphOf(cfg *config.Config, name string) *plan.Graph {
	for _, p := range cfg.Pipelines {
		if p.Name.Value == name {
			return p.Graph
		}
		for _, r := range p.Regions() {
			if r.Name.Value == name {
				return r.Graph
			}
		}
	}
	return nil
}

func (o *options) printVerdict(c *cobra.Command, v *savepoints.Verdict) error {
	if o.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(v)
	}
	printSchema(c.OutOrStdout(), v.Schema)
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	printLines(t, v.Lines)
	return t.Flush()
}

func printSchema(w io.Writer, changes []plan.ColumnChange) {
	for _, c := range changes {
		fmt.Fprintf(w, "source %s: %s\n", c.Source, c.String())
	}
}

func printLines(t io.Writer, lines []savepoints.Line) {
	fmt.Fprintln(t, "STEP\tSTATE\tENTRIES\tWHY")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", l.UID, l.Fate, l.Entries, l.Reason)
	}
}
