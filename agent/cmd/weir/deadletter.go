package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/exec"
)

// deadLetters is who has the dead letters: the running agent, or the files of a stopped one.
type deadLetters interface {
	Pipelines(ctx context.Context) ([]string, error)
	DeadLetters(ctx context.Context, pipeline string, q api.DeadQuery, f func(api.DeadLetter) error) error
	Requeue(ctx context.Context, pipeline string, q api.RequeueQuery) (api.RequeueAnswer, error)
	Close() error
}

// live asks the agent.
type live struct{ *api.Client }

func (l live) Pipelines(ctx context.Context) (names []string, err error) {
	s, err := l.Status(ctx)
	for i := range s.Pipelines {
		names = append(names, s.Pipelines[i].Name)
	}
	return names, err
}

func (live) Close() error { return nil }

// stopped works on the files.
type stopped struct{ *agent.Agent }

func (s stopped) Pipelines(context.Context) ([]string, error) { return s.Agent.Pipelines(), nil }

func (s stopped) DeadLetters(_ context.Context, pipeline string, q api.DeadQuery, f func(api.DeadLetter) error) error {
	return s.Agent.DeadLetters(pipeline, q, f)
}

// deadLetters finds them: an agent that answers has them, else state_dir is opened as by a start.
func (o *options) deadLetters(ctx context.Context) (deadLetters, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	_, err = client.Status(ctx)
	if !errors.Is(err, api.ErrNotRunning) || o.socket != "" {
		return live{client}, err
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, usageError{err}
	}
	if _, err := os.Stat(cfg.StateDir.Value); err != nil {
		return nil, fmt.Errorf("no agent has run here: %w", err)
	}
	a, err := agent.Stopped(cfg)
	if err != nil {
		return nil, err
	}
	return stopped{a}, nil
}

func deadletterCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "deadletter", Short: "Look at, put in again or export what a pipeline could not use",
		Long: "deadletter works on the running agent, through its socket, and on the files of a stopped one.",
	}
	c.AddCommand(deadletterList(o), deadletterShow(o), deadletterRequeue(o), deadletterExport(o))
	return c
}

// chooseFlags are the filters that the commands share.
func chooseFlags(c *cobra.Command, q *api.DeadQuery) (finish func() error) {
	var since, until string
	c.Flags().Uint64Var(&q.After, "after", 0, "only those behind this sequence number")
	c.Flags().StringVar(&q.Reason, "reason", "", "only those with this reason, such as decode")
	c.Flags().StringVar(&q.Step, "step", "", "only those of this step, or of $source/NAME")
	c.Flags().StringVar(&since, "since", "", "only those kept since: a time such as 2026-01-31T12:00:00Z, or an age such as 24h")
	c.Flags().StringVar(&until, "until", "", "only those kept before: a time or an age")
	return func() (err error) {
		if q.Since, err = instant(since); err == nil {
			q.Until, err = instant(until)
		}
		return err
	}
}

// instant reads a time or an age; "" is 0.
func instant(text string) (ms int64, err error) {
	if text == "" {
		return 0, nil
	}
	if age, err := time.ParseDuration(text); err == nil && age >= 0 {
		return max(1, time.Now().Add(-age).UnixMilli()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.UnixMilli() < 1 {
		return 0, usageError{fmt.Errorf("time is %q; allowed is one such as 2026-01-31T12:00:00Z, or an age such as 24h", text)}
	}
	return t.UnixMilli(), nil
}

func deadletterList(o *options) *cobra.Command {
	q := api.DeadQuery{}
	c := &cobra.Command{Use: "ls PIPELINE", Short: "List dead letters, oldest first", Args: usageArgs(cobra.ExactArgs(1))}
	finish := chooseFlags(c, &q)
	c.Flags().IntVar(&q.Limit, "limit", 100, "at most so many, up to 1000")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := finish(); err != nil {
			return err
		}
		d, err := o.deadLetters(c.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		if o.output == "json" {
			e := json.NewEncoder(c.OutOrStdout())
			return d.DeadLetters(c.Context(), args[0], q, func(l api.DeadLetter) error { return e.Encode(l) })
		}
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "SEQ\tKEPT\tSTEP\tREASON\tDETAIL\tTOPIC")
		err = d.DeadLetters(c.Context(), args[0], q, func(l api.DeadLetter) error {
			var d exec.DeadLetter
			if err := json.Unmarshal(l.Letter, &d); err != nil {
				return fmt.Errorf("read dead letter %d: %w", l.Seq, err)
			}
			_, err := fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", l.Seq, time.UnixMilli(l.KeptMs).UTC().Format(time.RFC3339), d.Step, d.Reason, printable(d.Detail), printable(d.Topic))
			return err
		})
		return errors.Join(t.Flush(), err)
	}
	return c
}

func deadletterShow(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "show PIPELINE SEQ", Short: "Show one dead letter whole, as JSON", Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			seqs, err := parseSeqs(args[1:])
			if err != nil {
				return err
			}
			d, err := o.deadLetters(c.Context())
			if err != nil {
				return err
			}
			defer d.Close()
			found := false
			err = d.DeadLetters(c.Context(), args[0], api.DeadQuery{After: seqs[0] - 1, Limit: 1}, func(l api.DeadLetter) error {
				if found = l.Seq == seqs[0]; !found {
					return nil
				}
				return json.NewEncoder(c.OutOrStdout()).Encode(l)
			})
			if err == nil && !found {
				err = fmt.Errorf("pipeline %s has no dead letter %d: there never was one, or it is gone (weir deadletter ls shows those that are there)", args[0], seqs[0])
			}
			return err
		},
	}
}

func parseSeqs(args []string) (seqs []uint64, err error) {
	for _, a := range args {
		seq, err := strconv.ParseUint(a, 10, 64)
		if err != nil || seq == 0 {
			return nil, usageError{fmt.Errorf("sequence number is %q; allowed is a whole number from 1", a)}
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

func deadletterRequeue(o *options) *cobra.Command {
	q, all := api.RequeueQuery{}, false
	c := &cobra.Command{
		Use: "requeue PIPELINE SEQ... | --all", Short: "Put the messages of dead letters into the journal again",
		Long: `requeue appends the message of each letter to the journal, as a new record with a new position that this pipeline alone reads, and removes the letter: each
exactly once, whatever is killed in between. It stays a letter when that cannot be done, and requeue says why.`,
		Example: `  weir deadletter requeue alarms 17 18
  weir deadletter requeue alarms --all --reason decode
  weir deadletter requeue alarms 23 --whole`,
		Args: usageArgs(func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("name the pipeline")
			case all == (len(args) > 1):
				return errors.New("give sequence numbers, or --all")
			}
			return nil
		}),
	}
	finish := chooseFlags(c, &q.DeadQuery)
	c.Flags().BoolVar(&all, "all", false, "all that the filters leave")
	c.Flags().BoolVar(&q.Whole, "whole", false, "also rows that a step refused: the whole message passes the pipeline again, also the steps that took it")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := finish(); err != nil {
			return err
		}
		if q.Seqs, err = parseSeqs(args[1:]); err != nil {
			return err
		}
		d, err := o.deadLetters(c.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		return o.requeue(c, d, args[0], q)
	}
	return c
}

// requeue goes on until every letter was looked at that was there when it began: what is refused again is a new letter.
func (o *options) requeue(c *cobra.Command, d deadLetters, pipeline string, q api.RequeueQuery) error {
	total := api.RequeueAnswer{Requeued: []api.Requeued{}, Refused: []api.Refused{}}
	newest, err := newestLetter(c.Context(), d, pipeline, q.DeadQuery)
	q.UpTo = newest
	for more := err == nil && newest > 0; more; {
		var a api.RequeueAnswer
		a, err = d.Requeue(c.Context(), pipeline, q)
		total.Requeued, total.Refused = append(total.Requeued, a.Requeued...), append(total.Refused, a.Refused...)
		q.After, total.Last = a.Last, max(total.Last, a.Last)
		more = err == nil && a.More
	}
	known := map[uint64]bool{}
	for _, r := range total.Requeued {
		known[r.Seq] = true
	}
	for _, r := range total.Refused {
		known[r.Seq] = true
	}
	if err == nil {
		for _, seq := range q.Seqs {
			if !known[seq] {
				total.Refused = append(total.Refused, api.Refused{Seq: seq, Why: "there is no such dead letter any more"})
			}
		}
	}
	if o.output == "json" {
		err = errors.Join(json.NewEncoder(c.OutOrStdout()).Encode(total), err)
	} else {
		for _, r := range total.Requeued {
			fmt.Fprintf(c.OutOrStdout(), "%d\tis at position %d of the journal\n", r.Seq, r.Position)
		}
		for _, r := range total.Refused {
			fmt.Fprintf(c.OutOrStdout(), "%d\tstays: %s\n", r.Seq, r.Why)
		}
	}
	if err == nil && len(total.Refused) > 0 {
		err = fmt.Errorf("%d of %d dead letters stay", len(total.Refused), len(total.Refused)+len(total.Requeued))
	}
	return err
}

// newestLetter bounds a requeue.
func newestLetter(ctx context.Context, d deadLetters, pipeline string, q api.DeadQuery) (newest uint64, err error) {
	q.Limit = api.DeadLettersMax
	for n := q.Limit; n == q.Limit && err == nil; {
		n = 0
		err = d.DeadLetters(ctx, pipeline, q, func(l api.DeadLetter) error {
			n++
			newest, q.After = l.Seq, l.Seq
			return nil
		})
	}
	return newest, err
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
