//go:build !nocentral

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/takeover"
)

func takeoverCommand(o *options) *cobra.Command {
	var from string
	var trusted takeover.Trusted
	var to takeover.Options
	c := &cobra.Command{
		Use: "restore --from central|DIRECTORY --gateway OLD", Short: "Take the place of a device that is lost or broken, on an empty state_dir",
		Long: `Fetches what the device before has left (from the central store, or savepoint files in a directory), claims the gateway under a new incarnation, which stops that device
wherever it still runs, fetches what came in between, and orders the restore: the next weir run goes on with the state, the streams and their sequences, under a new generation. Prints what is lost: all that the
device before received behind what it had left. Windows that overlap it are marked partial. Run it again when it was cut short. One savepoint of a running agent is restored by weir
savepoint restore.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" || to.Gateway == "" {
				return usageError{fmt.Errorf("--from and --gateway are needed")}
			}
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			for _, names := range [][]string{to.Pipelines, to.AcceptLoss} {
				if _, err := named(cfg, "--pipeline or --accept-loss", names); err != nil {
					return err
				}
			}
			told, stop := o.showBytes(c)
			defer stop()
			trusted.Told = told
			if to.From, err = takeover.OpenLegacy(cfg, from, trusted); err != nil {
				return usageError{err}
			}
			t, err := takeover.Run(c.Context(), cfg, to)
			stop()
			if err != nil {
				return err
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(t)
			}
			return printTakeover(c.OutOrStdout(), t)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "central, or a directory with savepoint files")
	f.StringArrayVar(&trusted.Keys, "key", nil, "public key whose signatures are trusted, as weir central key printed it on the device before; may be repeated")
	f.BoolVar(&trusted.Any, "any-key", false, "trust whoever may write to the store: signatures are checked, whose they are is not")
	f.StringVar(&trusted.Identity, "identity", "", "file of the private key (age) that opens encrypted uploads")
	f.StringVar(&to.Gateway, "gateway", "", "name of the gateway whose place this device takes")
	f.StringSliceVar(&to.Pipelines, "pipeline", nil, "pipelines that are taken over (default all of the config); the others start empty")
	f.StringSliceVar(&to.AcceptLoss, "accept-loss", nil, "pipelines that may start empty because nothing is left of them")
	f.BoolVar(&to.AllowDroppedState, "allow-dropped-state", false, "start steps empty whose state this config's plan cannot take over")
	return c
}

func printTakeover(w io.Writer, t *takeover.TakenOver) error {
	fmt.Fprintf(w, "this device is gateway %s from now on, incarnation %s; the next weir run goes on\n", t.Gateway, t.Incarnation)
	day := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	for _, p := range t.Pipelines {
		if p.Loss == nil {
			fmt.Fprintf(w, "pipeline %s: starts empty\n", p.Name)
			continue
		}
		l := p.Loss
		if l.After > 0 {
			fmt.Fprintf(w, "pipeline %s: goes on from position %d and replays what was shipped behind it, up to position %d of %s; lost is what came between then and now, %s (%s)\n",
				p.Name, p.State, l.After, day(l.LeftMs), day(l.TakenMs), time.Duration(max(0, l.TakenMs-l.LeftMs))*time.Millisecond)
			fmt.Fprintf(w, "  results of later records whose windows overlap %s to %s are marked partial\n", day(l.FromMs), day(l.ToMs))
			continue
		}
		fmt.Fprintf(w, "pipeline %s: goes on from position %d, left %s; lost is what came between then and now, %s (%s)\n",
			p.Name, l.Position, day(l.LeftMs), day(l.TakenMs), time.Duration(max(0, l.TakenMs-l.LeftMs))*time.Millisecond)
		fmt.Fprintf(w, "  windows that overlap %s to %s are marked partial\n", day(l.FromMs), day(l.ToMs))
	}
	for _, note := range t.Notes {
		fmt.Fprintln(w, note)
	}
	for _, name := range t.Left {
		fmt.Fprintf(w, "pipeline %s: not in this config, left where it is\n", name)
	}
	return nil
}
