package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/savepoints"
)

// errGoneBack ends `weir apply` when the new plans failed within their probation.
var errGoneBack = errors.New("gone back")

func applyCommand(o *options) *cobra.Command {
	var a api.ApplyOptions
	c := &cobra.Command{
		Use: "apply NEW.yaml", Short: "Bring a changed config into force while the agent runs; it goes back by itself when the new plans fail",
		Long: `Pipelines that did not change go on without a stop. Each changed one stops behind a savepoint, and the new plan starts from it, on probation
(setting apply.probation): its results are held back. When it fails, what it made is dropped and the old plan goes on from the savepoint.

A change that would lose state is refused, and names the steps, unless --allow-dropped-state. Nothing is touched then.
Exit code 0: the config is in force; 1: it was refused or could not be carried out; 2: the config is wrong; 7: it would lose state; 8: it failed within
its probation, and the old one runs. --dry-run only tells, as weir plan NEW.yaml: 0 nothing changes, 6 something does, 7 it would lose state, 1 refused.`,
		Example: `  weir apply new.yaml
  weir apply new.yaml --dry-run`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error { return o.apply(c, args[0], a) },
	}
	f := c.Flags()
	f.BoolVar(&a.AllowDroppedState, "allow-dropped-state", false, "start steps empty whose state the new plan cannot take over")
	f.BoolVar(&a.Again, "again", false, "though this very config was gone back from before")
	f.BoolVar(&a.DryRun, "dry-run", false, "only tell what would become of each pipeline")
	return c
}

func (o *options) apply(c *cobra.Command, file string, a api.ApplyOptions) error {
	cfg, err := config.Load(file)
	if err != nil {
		return usageError{err}
	}
	if a.File, err = filepath.Abs(file); err != nil {
		return err
	}
	a.Text = cfg.Text
	client, err := o.client()
	if err != nil {
		return err
	}
	out, err := client.Apply(c.Context(), a, func(e api.ApplyEvent) error { return o.printApply(c, &e) })
	if err != nil {
		return err
	}
	return o.applied(c, out, cfg.File)
}

func (o *options) printApply(c *cobra.Command, e *api.ApplyEvent) error {
	w := c.OutOrStdout()
	if o.output == "json" {
		return json.NewEncoder(w).Encode(e)
	}
	switch {
	case e.Change != "":
		fmt.Fprintf(w, "pipeline %s: %s\n", e.Pipeline, e.Change)
		printSchema(w, e.Schema)
		if len(e.Steps) == 0 {
			return nil
		}
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		printLines(t, e.Steps)
		return t.Flush()
	case e.Pipeline != "":
		_, err := fmt.Fprintf(w, "pipeline %s: %s\n", e.Pipeline, e.Doing)
		return err
	}
	_, err := fmt.Fprintln(w, e.Doing)
	return err
}

// applied prints the outcome and gives the error that makes the exit code.
func (o *options) applied(c *cobra.Command, out *api.ApplyOutcome, file string) error {
	w := c.OutOrStdout()
	if o.output == "json" {
		if err := json.NewEncoder(w).Encode(api.ApplyEvent{Done: out}); err != nil {
			return err
		}
	}
	switch out.Result {
	case api.ApplyUnchanged:
		if o.output != "json" {
			fmt.Fprintln(w, "nothing changes")
		}
		return nil
	case api.ApplyCommitted:
		if o.output != "json" {
			fmt.Fprintln(w, "the changed config is in force")
			if same, err := filepath.Abs(o.config); err != nil || same != file && o.config != file {
				fmt.Fprintf(w, "it is what a restart runs, until %s changes: copy it there\n", o.config)
			}
		}
		return nil
	case api.ApplyChanges:
		return errPlanChanges
	case api.ApplyGoneBack:
		return fmt.Errorf("%w to the old config: %s", errGoneBack, out.Error)
	case api.ApplyLosesState:
		return dropped{out.Error}
	}
	return errors.New(out.Error)
}

// dropped is savepoints.ErrDropsState as the agent tells of it.
type dropped struct{ text string }

func (d dropped) Error() string        { return d.text }
func (d dropped) Is(target error) bool { return target == savepoints.ErrDropsState }
