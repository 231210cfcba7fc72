//go:build !nocentral

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
)

// haltTries is how often a halt that others overtake is tried again.
const haltTries = 8

func fleetHaltCommand(f *fleetFlags) *cobra.Command {
	why := ""
	c := &cobra.Command{
		Use: "halt", Short: "Halt the roll-out of a channel: nobody begins, who has not switched goes back to work", Args: usageArgs(cobra.NoArgs),
		Long: "Asks nothing, and reads no report before it is published: it is for an emergency. Then it looks, for a minute at most, whether gateways have verified a newer document than the store held, and publishes it above that. weir fleet resume goes on, with those that had not begun: whom the halt has stopped, the next roll-out takes.",
		RunE: func(c *cobra.Command, _ []string) error {
			signers, err := f.signers(c)
			if err != nil {
				return err
			}
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			for try := 1; ; try++ {
				before, r, err := fl.current(c)
				if err != nil {
					return err
				}
				if r.Halted {
					fmt.Fprintf(c.OutOrStdout(), "roll-out %s is halted already: %s\n", r.ID, r.WhyHalt)
					return fl.above(c, r, r.Serial, signers)
				}
				n := rollout.Halt(r, why, time.Now().UnixMilli())
				err = fl.publishRollout(c, before, n, signers)
				if errors.Is(err, depot.ErrLost) && try < haltTries {
					continue
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "halted: roll-out %s, serial %d\n", n.ID, n.Serial)
				return fl.above(c, n, r.Serial, signers)
			}
		},
	}
	c.Flags().StringVar(&why, "why", "halted by hand", "the reason, which gateways and weir fleet status tell")
	return f.signs(c)
}

func fleetResumeCommand(f *fleetFlags) *cobra.Command {
	r := &rolloutFlags{fleetFlags: f}
	nextWave := false
	c := &cobra.Command{
		Use: "resume", Short: "Go on with a roll-out that is halted, or with the next wave of one that is stuck", Args: usageArgs(cobra.NoArgs),
		Long: `What failed before counts as before: without a higher --max-failed a roll-out that was halted for its failures would be halted again at once, and is not resumed.
A gateway tries a roll-out once: whom the halt has stopped stays on its program. Another roll-out of the release, with another --id, has it try.`,
		RunE: func(c *cobra.Command, _ []string) error {
			signers, err := f.signers(c)
			if err != nil {
				return err
			}
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			before, was, err := fl.current(c)
			if err != nil {
				return err
			}
			facts, err := fl.facts(c, was)
			if err != nil {
				return err
			}
			resumed := rollout.Resume
			if nextWave {
				resumed = rollout.Skip
			}
			n, err := resumed(was, facts.NowMs, time.Now().UnixMilli())
			if err != nil {
				return usageError{err}
			}
			if c.Flags().Changed("max-failed") {
				if n.Limits.MaxFailedPermille, err = r.failed(); err != nil {
					return err
				}
			}
			n.Serial = max(n.Serial, facts.ahead.Most+1)
			tellAhead(c.ErrOrStderr(), "rollout/"+fl.channel, &facts.ahead)
			v := rollout.Judge(n, &facts.Facts)
			if v.Halt {
				return usageError{fmt.Errorf("it would be halted again at once: %s; see weir fleet status, and give a higher --max-failed", v.Why)}
			}
			fmt.Fprintf(c.ErrOrStderr(), "roll-out %s goes on with wave %d (%s): %s\n", n.ID, n.Wave+1, rollout.Share(n.Permille), v.Why)
			if k := v.Counts; was.Halted && k.Halted+k.UnderWay > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "whom the halt has stopped does not try again in it (%d say so, %d were under way when they reported last): roll out once more with another --id for them\n", k.Halted, k.UnderWay)
			}
			if err := f.confirm(c, "Publish it?"); err != nil {
				return err
			}
			if err := fl.publishRollout(c, before, n, signers); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "goes on: roll-out %s, serial %d\n", n.ID, n.Serial)
			return nil
		},
	}
	r.addLimits(c)
	c.Flags().BoolVar(&nextWave, "next-wave", false, "go on with the next wave now, whatever has been reported")
	return f.signs(c)
}

func fleetReconcileCommand(f *fleetFlags) *cobra.Command {
	watch := time.Duration(0)
	c := &cobra.Command{
		Use: "reconcile", Short: "Judge the roll-out of a channel once, and go on with the next wave, or halt it", Args: usageArgs(cobra.NoArgs),
		Long: `For cron, or a loop with --watch. What is published needs the deploy key; without one the verdict is told, and the exit code is 10 when there was something to publish. It asks nothing: the roll-out itself,
which was signed, says when to do what. Two that run at once do not disturb each other.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch != 0 {
				if err := often("watch", watch); err != nil {
					return err
				}
			}
			signers, err := f.sign.signers(c.Context(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			return f.reconcile(c, fl, signers, watch)
		},
	}
	c.Flags().DurationVar(&watch, "watch", 0, "do it again and again, so often, until the roll-out is done or waits for somebody")
	return f.signs(c)
}

// errWatchEnded: not done, so the exit code is not 0.
var errWatchEnded = errors.New("the watch was ended; the roll-out stays in its wave until somebody reconciles again")

// reconcile judges and acts; every 0: once.
func (f *fleetFlags) reconcile(c *cobra.Command, fl *fleet, signers []signed.Signer, every time.Duration) error {
	version, last := "", ""
	for {
		st, err := fl.reconcileOnce(c, signers, &version)
		var keep error
		switch {
		case st != nil && (every == 0 || st.Verdict.Why != last):
			last = st.Verdict.Why
			keep = f.say(c, st, func() { st.print(c.OutOrStdout()) })
		case every > 0 && c.Context().Err() != nil: // in the middle of a look
			return errWatchEnded
		case err != nil && every > 0 && !errors.Is(err, errAttention): // a link that broke, a lease: the next time
			fmt.Fprintf(c.ErrOrStderr(), "warning: %v\n", err)
			err = nil
		}
		if keep != nil || err != nil || every == 0 || st != nil && st.Verdict.Done {
			return errors.Join(err, keep)
		}
		select {
		case <-time.After(every):
		case <-c.Context().Done():
			return errWatchEnded
		}
	}
}

// reconcileOnce judges, and publishes what follows. What it gives is how things stood before.
func (fl *fleet) reconcileOnce(c *cobra.Command, signers []signed.Signer, version *string) (*standing, error) {
	if len(signers) > 0 {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		lease, err := fl.Lease(c.Context(), fl.channel, fmt.Sprintf("%s-%d", host, os.Getpid()))
		if err != nil {
			return nil, err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 10*time.Second)
			defer cancel()
			if err := lease.Free(ctx); err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "warning: the lease is not given back, and ends by itself: %v\n", err)
			}
		}()
	}
	before, r, err := fl.current(c)
	if err != nil {
		return nil, err
	}
	if *version == "" {
		*version = fl.versionOf(c, r.Release)
	}
	facts, err := fl.facts(c, r)
	if err != nil {
		return nil, err
	}
	v := rollout.Judge(r, &facts.Facts)
	st := stand(fl, r, *version, &v, facts)
	next, behind := rollout.Next(r, v, facts.NowMs, time.Now().UnixMilli()), fl.stands(&facts.ahead)
	switch {
	case next == nil, behind && !next.Halted: // an old document is not what gateways should go on with because time has passed
		return st, attention(r, &v, behind)
	case len(signers) == 0:
		return st, fmt.Errorf("%w: no key was given to publish what follows", errAttention)
	}
	next.Serial = max(next.Serial, facts.ahead.Most+1)
	if err := fl.publishRollout(c, before, next, signers); err != nil {
		return st, err
	}
	if next.Halted {
		return st, fmt.Errorf("%w: the roll-out was halted, serial %d", errAttention, next.Serial)
	}
	fmt.Fprintf(c.ErrOrStderr(), "published: wave %d, %s of the gateways, serial %d\n", next.Wave+1, rollout.Share(next.Permille), next.Serial)
	return st, nil
}
