package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline/exec"
)

func deadletterCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "deadletter", Short: "Look at records that a pipeline could not use"}
	var after uint64
	var limit int
	list := &cobra.Command{
		Use: "ls PIPELINE", Short: "List dead letters, oldest first", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			if o.output == "json" {
				e := json.NewEncoder(c.OutOrStdout())
				return client.DeadLetters(c.Context(), args[0], after, limit, func(l api.DeadLetter) error { return e.Encode(l) })
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(t, "SEQ\tSTEP\tREASON\tDETAIL\tTOPIC")
			err = client.DeadLetters(c.Context(), args[0], after, limit, func(l api.DeadLetter) error {
				var d exec.DeadLetter
				if err := json.Unmarshal(l.Letter, &d); err != nil {
					return fmt.Errorf("read dead letter %d: %w", l.Seq, err)
				}
				_, err := fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", l.Seq, d.Step, d.Reason, printable(d.Detail), printable(d.Topic))
				return err
			})
			if err != nil {
				return err
			}
			return t.Flush()
		},
	}
	list.Flags().Uint64Var(&after, "after", 0, "only those behind this sequence number")
	list.Flags().IntVar(&limit, "limit", 100, "at most so many")
	show := &cobra.Command{
		Use: "show PIPELINE SEQ", Short: "Show one dead letter whole, as JSON", Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil || seq == 0 {
				return usageError{fmt.Errorf("sequence number is %q; allowed is a whole number from 1", args[1])}
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			found := false
			err = client.DeadLetters(c.Context(), args[0], seq-1, 1, func(l api.DeadLetter) error {
				found = l.Seq == seq
				return json.NewEncoder(c.OutOrStdout()).Encode(l)
			})
			if err == nil && !found {
				err = fmt.Errorf("pipeline %s has no dead letter %d any more", args[0], seq)
			}
			return err
		},
	}
	c.AddCommand(list, show)
	return c
}

// printable quotes text that would act on a terminal: it comes from whoever may publish.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}
