package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
)

func statusCommand(o *options) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what the running agent does: sessions, journal, pipelines, checkpoints, the ledger",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			for {
				s, err := client.Status(c.Context())
				if err != nil {
					return err
				}
				if err := printStatus(c.OutOrStdout(), s, o.output); err != nil || !watch {
					return err
				}
				select {
				case <-c.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "again every second")
	return c
}

func printStatus(w io.Writer, s api.Status, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "gateway %s\tweir %s\tup %s\tclock %s\n", s.Gateway, s.Version, time.Since(s.Started).Round(time.Second), clockText(&s.Clock))
	fmt.Fprintf(t, "incarnation %s\tboard %s\n", s.Identity.Incarnation, s.Identity.Board)
	if s.Identity.Fenced != "" {
		fmt.Fprintf(t, "FENCED\t%s\n", s.Identity.Fenced)
	}
	if n := s.Identity.Stranded; n != nil {
		fmt.Fprintf(t, "not delivered\t%d results\t%d records\t%d bytes\n", n.Results, n.Records, n.Bytes)
	}
	state := "ok"
	if s.Journal.Full {
		state = "FULL: nothing is acknowledged until space is free"
	}
	if s.Journal.Failed != "" {
		state = "FAILED: " + s.Journal.Failed
	}
	fmt.Fprintf(t, "journal\trecords %d..%d\tdurable %d\t%d of %d MiB\t%s\n", s.Journal.First, s.Journal.Last, s.Journal.Durable,
		s.Journal.Bytes>>20, s.Journal.BytesMax>>20, state)
	if s.Flash != nil {
		printFlash(t, s.Flash)
	}
	if p := s.Apply; p != nil {
		fmt.Fprintf(t, "apply %d\t%s\t%s\t%s\n", p.Number, p.State, strings.Join(p.Changes, ", "), p.Reason)
	}
	if u := s.Upgrade; u != nil {
		fmt.Fprintf(t, "upgrade %d\t%s\t%s to %s\t%s\n", u.Number, cmp.Or(u.State, "none"), u.From, u.To, cmp.Or(u.NotUsable, u.Stands, u.Why, u.Waits))
	}
	if f := s.Fleet; f != nil {
		fmt.Fprintf(t, "fleet %s\t%s\troot %d\t%d commands under way\t%d results unsent\t%s\n", f.Channel, contactText(f), f.Root, f.Begun, f.Unsent, cmp.Or(f.Broken, f.Error))
	}
	for _, b := range s.Sessions {
		fmt.Fprintf(t, "broker %s\t%s\t%s\t%s\n", b.Name, b.URL, b.State, b.Error)
		if d := b.Drops; d != nil {
			fmt.Fprintf(t, "  dropped there\t%d\twhile this session was away %d\tbefore %d\t%s\n", d.Dropped, d.Away, d.Before, d.Error)
		}
	}
	for i := range s.Pipelines {
		printPipeline(t, &s.Pipelines[i])
	}
	for _, p := range s.Problems {
		fmt.Fprintf(t, "! %s\n", p)
	}
	return t.Flush()
}

func contactText(f *api.FleetStatus) string {
	switch {
	case f.Broken != "":
		return "BROKEN"
	case f.ContactSeconds < 0:
		return "not read yet"
	}
	return fmt.Sprintf("read %.0f s ago", f.ContactSeconds)
}

func printPipeline(t io.Writer, p *api.PipelineStatus) {
	fmt.Fprintf(t, "\npipeline %s\t%s\tposition %d\tlag %d\trestarts %d\n", p.Name, strings.ToUpper(p.State), p.Position, p.Lag, p.Restarts)
	if p.Progress != nil {
		fmt.Fprintf(t, "  %s\n", p.Progress)
	}
	if p.Error != "" {
		fmt.Fprintf(t, "  error\t%s\n", p.Error)
	}
	c := p.Checkpoint
	if p.Large != nil {
		fmt.Fprintf(t, "  state\ton flash\t%d bytes\t%d in memory\t%d written\n", p.Large.Disk, p.Large.Memory, p.Large.Written)
	}
	fmt.Fprintf(t, "  checkpoint\t%d\tat %d\t%.1f s old\t%d bytes\t%d done, %d failed\n", c.ID, c.Position, c.AgeSeconds, c.Bytes, c.Completed, c.Failed)
	if p.Central != nil {
		printCentral(t, p.Central)
	}
	if c.LastError != "" {
		fmt.Fprintf(t, "  \tlast failure: %s\n", c.LastError)
	}
	for _, task := range p.Tasks {
		fmt.Fprintf(t, "  task %s\tposition %d\n", task.Name, task.Position)
		for _, r := range task.Regions {
			fmt.Fprintf(t, "    keyed %s\t%d instances\trows %v\n", strings.Join(r.Steps, ", "), len(r.Rows), r.Rows)
		}
	}
	for _, s := range p.Sources {
		fmt.Fprintf(t, "  source %s\treceived %d\tsplit %d\tprocessed %d: rows %d\ttombstones %d\tdead %d\n", s.Name, s.Received, s.Split, s.Processed, s.Rows, s.Tombstones, s.Dead)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(t, "  step %s\tin %d\tout %d\tlate %d\tdropped %d\tdead %d\n", s.UID, s.In, s.Emitted, s.Late, s.Dropped, s.Dead)
	}
	for _, s := range p.Sinks {
		fmt.Fprintf(t, "  sink %s\temitted %d\tconfirmed %d\tpending %d\trejected %d\tdropped %d\t%s, %s, %s %s\n",
			s.UID, s.Emitted, s.Confirmed, s.Pending, s.Rejected, s.Dropped, s.Commit, s.Guarantee, s.State, cmp.Or(s.Error, s.Held))
		if s.Pending > 0 || s.Dropped > 0 {
			fmt.Fprintf(t, "    \t%d of %d bytes wait%s\t%d on flash\texpired %d\toverflowed %d\n", s.Bytes, s.BytesMax, full(s.Full), s.DiskBytes, s.Expired, s.Overflowed)
		}
		if s.Limits != "" {
			fmt.Fprintf(t, "    \tupstream's limits: %s\n", s.Limits)
		}
	}
	if d := p.Dead; d != nil {
		fmt.Fprintf(t, "  dead letters\tkept %d\theld %d\tevicted %d\texpired %d\trequeued %d\n", d.Kept, d.Held, d.Evicted, d.Expired, d.Requeued)
		if k := d.Sink; k != nil {
			fmt.Fprintf(t, "    to %s\tdelivered %d\tpending %d\tdropped %d\trejected %d\t%s %s\n", k.Stream, k.Before+k.Delivered, k.Pending, k.Dropped, k.Rejected, k.State, k.Error)
		}
	}
	switch {
	case p.Balanced:
		fmt.Fprintf(t, "  ledger\tbalanced\n")
	case p.Imbalance != "": // neither: it has not run since the agent started
		fmt.Fprintf(t, "  ledger\tNOT balanced: %s\n", p.Imbalance)
	}
}

func printCentral(t io.Writer, c *api.CentralStatus) {
	switch {
	case c.Serial == 0:
		fmt.Fprintf(t, "  central\tnothing is uploaded yet")
	case c.AgeSeconds < 0:
		fmt.Fprintf(t, "  central\t%d\tat %d\tof %s", c.Checkpoint, c.Position, c.Created.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintf(t, "  central\t%d\tat %d\t%.1f s old", c.Checkpoint, c.Position, c.AgeSeconds)
	}
	if c.Shipped > 0 && c.LossSeconds >= 0 {
		fmt.Fprintf(t, "\tshipped to %d, at most %.1f s would be lost", c.Shipped, c.LossSeconds)
	}
	fmt.Fprintf(t, "\t%d bytes pending\t%d uploads, %d bytes sent\t%s\n", c.Pending, c.Uploads, c.Sent, c.Error)
}

func full(f bool) string {
	if f {
		return ", FULL: it holds the pipeline"
	}
	return ""
}

// clockText says whether the wall clock is believed, and what it did.
func clockText(c *api.ClockStatus) string {
	text := "trusted"
	switch {
	case c.WallMs < c.FloorMs:
		text = "not trusted: it is behind " + time.UnixMilli(c.FloorMs).UTC().Format(time.RFC3339) + ", which is past"
	case !c.Trusted:
		text = "not trusted: no time service has confirmed it"
	}
	if c.Steps > 0 {
		text += fmt.Sprintf(", set %d times (last by %s)", c.Steps, time.Duration(c.LastStepMs)*time.Millisecond)
	}
	if c.SleptSeconds > 0 {
		text += fmt.Sprintf(", slept for %s", time.Duration(c.SleptSeconds*1e9).Round(time.Second))
	}
	return text
}
