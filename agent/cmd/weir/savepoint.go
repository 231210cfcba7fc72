package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/snapshot/savepoint"
)

func savepointCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "savepoint", Short: "Take, list, look into, verify, restore and remove savepoints",
		Long: `A savepoint is the whole state of a pipeline in one file: results that the upstream does not hold yet, tables, clocks, counters. It does not
depend on backend, checkpoint store, parallelism or machine, and no retention removes it.`,
	}
	c.AddCommand(createSavepointCommand(o), listSavepointsCommand(o), inspectCommand(o), verifyCommand(o), restoreCommand(o), removeCommand(o))
	return c
}

// placed adds the flags that say where a savepoint goes.
func placed(c *cobra.Command, to *api.SavepointOptions) {
	c.Flags().StringVar(&to.Name, "name", "", "name of the file (default PIPELINE-TIME)")
	c.Flags().StringVar(&to.Dir, "dir", "", "directory, absolute (default state_dir/savepoints)")
}

func createSavepointCommand(o *options) *cobra.Command {
	var to api.SavepointOptions
	c := &cobra.Command{
		Use: "create PIPELINE", Short: "Take a savepoint of a running pipeline, which goes on", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error { return o.takeSavepoint(c, args[0], to, false) },
	}
	placed(c, &to)
	return c
}

func stopCommand(o *options) *cobra.Command {
	var to api.SavepointOptions
	var with bool
	c := &cobra.Command{
		Use: "stop PIPELINE", Short: "Make a last checkpoint, or a savepoint, and stop the pipeline; it holds its place in the journal",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if to.Drain && !with {
				return usageError{errors.New("--drain goes with --savepoint")}
			}
			if with || to != (api.SavepointOptions{}) {
				return o.takeSavepoint(c, args[0], to, true)
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			return client.Control(c.Context(), args[0], "stop")
		},
	}
	c.Flags().BoolVar(&with, "savepoint", false, "stop behind a savepoint: no record was read and no result came behind it")
	c.Flags().BoolVar(&to.Drain, "drain", false, "with --savepoint: end event time before it, so that every window fires; for a pipeline that will not go on")
	placed(c, &to)
	return c
}

func (o *options) takeSavepoint(c *cobra.Command, pipeline string, to api.SavepointOptions, stop bool) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	done := o.showProgress(c, client, pipeline)
	list, err := client.CreateSavepoint(c.Context(), pipeline, to, stop)
	done()
	if err != nil {
		return err
	}
	return o.printSavepoints(c, list)
}

func listSavepointsCommand(o *options) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "ls [PIPELINE]", Short: "List the savepoints, oldest first; each is verified", Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if dir == "" {
				cfg, err := config.Load(o.config)
				if err != nil {
					return usageError{err}
				}
				dir = restore.SavepointDir(cfg)
			}
			names, err := filepath.Glob(filepath.Join(dir, "*"+restore.SavepointSuffix))
			if err != nil {
				return err
			}
			var list []api.SavepointInfo
			var bad []error
			for _, name := range names {
				info, _, err := readSavepoint(c.Context(), name)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				if len(args) == 0 || info.Pipeline == args[0] || strings.HasPrefix(info.Pipeline, args[0]+"/") {
					list = append(list, info)
				}
			}
			sort.SliceStable(list, func(i, j int) bool { return list[i].Time.Before(list[j].Time) })
			return errors.Join(append([]error{o.printSavepoints(c, list)}, bad...)...)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "directory (default state_dir/savepoints)")
	return c
}

func readSavepoint(ctx context.Context, path string) (api.SavepointInfo, *savepoint.File, error) {
	f, err := restore.ReadSavepoint(ctx, path)
	if err != nil {
		return api.SavepointInfo{}, nil, err
	}
	return restore.SavepointInfo(path, &f.Head, f.Summary), f, f.Close()
}

func (o *options) printSavepoints(c *cobra.Command, list []api.SavepointInfo) error {
	if o.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(list)
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PIPELINE\tPOSITION\tTIME\tBYTES\tENTRIES\tRESULTS\tFILE")
	for _, i := range list {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%d\t%s\n", i.Pipeline, i.Position, i.Time.UTC().Format(time.RFC3339), i.Bytes, i.Entries, i.Results, i.File)
	}
	return t.Flush()
}

func verifyCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE...", Short: "Read every byte of savepoints and check them", Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				info, _, err := readSavepoint(c.Context(), name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: whole; sha256 of all but its last 32 bytes %s\n", name, info.SHA256)
			}
			return errors.Join(errs...)
		},
	}
}

func inspectCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "inspect FILE", Short: "Tell what a savepoint holds: plan, steps, tables with their sizes, sinks", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			info, f, err := readSavepoint(c.Context(), args[0])
			if err != nil {
				return err
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"savepoint": info, "steps": f.Head.Steps, "tables": f.Head.Tables, "entries": f.Counts(), "sinks": f.Head.Sinks})
			}
			w := c.OutOrStdout()
			fmt.Fprintf(w, "pipeline %s of %s, checkpoint %d at position %d, generation %d, written by weir %s at %s\n",
				info.Pipeline, info.Gateway, info.Checkpoint, info.Position, info.Generation, info.Version, info.Time.UTC().Format(time.RFC3339))
			if f.Head.Drained {
				fmt.Fprintln(w, "drained: event time was ended before it, no window is open")
			}
			counts := f.Counts()
			for i, t := range f.Head.Tables {
				fmt.Fprintf(w, "table  %s/%s  %s version %d, %d entries\n", t.UID, t.Name, t.Type, t.Version, counts[i])
			}
			for _, s := range f.Head.Sinks {
				fmt.Fprintf(w, "sink   %s  at %d, %d results that the upstream did not hold\n", s.UID, s.Seq, s.Seq-s.Confirmed)
			}
			_, err = fmt.Fprintf(w, "%s", f.Head.Plan)
			return err
		},
	}
}

func restoreCommand(o *options) *cobra.Command {
	var r api.RestoreOptions
	c := &cobra.Command{
		Use: "restore PIPELINE [FILE]", Short: "Make a savepoint the state of a pipeline, in place of what it has",
		Long: `The pipeline stops and starts again from the savepoint. Without a running agent the next start of it restores. The results go on where the savepoint
stands when the records behind it are still in the journal; else continuity is broken, which needs --accept-gap: the sinks begin a new generation.
An order that cannot be carried out keeps the pipeline from starting: --cancel, without a FILE, takes it back.`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, args []string) error {
			if r.Cancel != (len(args) == 1) {
				return usageError{errors.New("a FILE is needed, or --cancel without one")}
			}
			if r.Cancel {
				return o.cancelRestore(c, args[0])
			}
			path, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			r.File = path
			if _, _, err := readSavepoint(c.Context(), path); err != nil {
				return err
			}
			client, err := o.client()
			if err == nil {
				done := o.showProgress(c, client, args[0])
				err = client.RestoreSavepoint(c.Context(), args[0], r)
				done()
			}
			if !errors.Is(err, api.ErrNotRunning) {
				return err
			}
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			if err := agent.OrderRestore(cfg.StateDir.Value, args[0], r); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "no agent is running: its next start restores the savepoint")
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&r.Claim, "claim", false, "the savepoint belongs to the agent from then on, which removes the file once it is restored (default: the file is left alone)")
	f.Bool("no-claim", false, "the file is left alone: what holds without --claim")
	c.MarkFlagsMutuallyExclusive("claim", "no-claim")
	f.BoolVar(&r.AcceptGap, "accept-gap", false, "go on though continuity is broken: the sinks begin a new generation")
	f.BoolVar(&r.Cancel, "cancel", false, "take back the order of a restore that could not be carried out: the pipeline starts from its own checkpoints")
	f.BoolVar(&r.AllowDroppedState, "allow-dropped-state", false, "start steps empty whose state this plan cannot take over")
	return c
}

func (o *options) cancelRestore(c *cobra.Command, pipeline string) error {
	client, err := o.client()
	if err == nil {
		err = client.RestoreSavepoint(c.Context(), pipeline, api.RestoreOptions{Cancel: true})
	}
	if !errors.Is(err, api.ErrNotRunning) {
		return err
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return usageError{err}
	}
	return agent.CancelRestore(cfg.StateDir.Value, pipeline)
}

func removeCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "rm FILE...", Short: "Remove savepoints", Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range args {
				if !strings.HasSuffix(name, restore.SavepointSuffix) {
					return usageError{fmt.Errorf("%s: no name of a savepoint, which ends in %s", name, restore.SavepointSuffix)}
				}
				if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
					return err
				}
				if err := os.Remove(name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
