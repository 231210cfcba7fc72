package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
)

func upgradeCommand(o *options) *cobra.Command {
	var release string
	var wait bool
	u := api.UpgradeOptions{}
	c := &cobra.Command{
		Use: "upgrade FILE", Short: "Have another program take over, with the state of the pipelines; it goes back by itself when the new one fails",
		Long: `FILE is the program, RELEASE.json its signed manifest (weir release). The agent checks both, stops the pipelines behind savepoints, and starts the new program on trial: its results are held back. When it fails, what it
made is dropped, and the old program goes on from the savepoints; no message and no result is lost or there twice. docs/upgrade.md has the states, and what to look at.

Exit code 0: the order is recorded, or with --wait: the new program stays; 1: it was refused or failed, the old program runs; 8: the new program was gone back from.`,
		Example: `  weir upgrade weir-1.3.0 --release release.json --wait
  weir upgrade status
  weir upgrade abort`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if release == "" {
				return usageError{errors.New("--release is missing: the signed manifest that names the file")}
			}
			if u.File, err = filepath.Abs(args[0]); err != nil {
				return err
			}
			if u.Release, err = readSmall(c.Context(), release); err != nil {
				return usageError{err}
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			s, err := client.Upgrade(c.Context(), u)
			if err != nil {
				return err
			}
			if err := o.printUpgrade(c.OutOrStdout(), &s); err != nil || !wait {
				return err
			}
			return o.awaitUpgrade(c, s.Number, upgradeStep(&s))
		},
	}
	f := c.Flags()
	f.StringVar(&release, "release", "", "the signed manifest of the release that FILE is of")
	f.BoolVar(&wait, "wait", false, "wait until the new program stays, or was gone back from")
	f.BoolVar(&u.DiscardState, "discard-state", false, "the new program may begin without the state that it cannot read")
	f.BoolVar(&u.Again, "again", false, "also when this gateway has gone back from that program before (weir upgrade status lists what is rejected)")
	f.BoolVar(&u.UploadSavepoints, "upload-savepoints", false, "do not switch before the savepoints are at the central store")
	c.AddCommand(upgradeStatusCommand(o), upgradeAbortCommand(o))
	return c
}

func upgradeStatusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell how the upgrade stands, or how the last one ended", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			s, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			if s.Upgrade == nil {
				s.Upgrade = &api.UpgradeStatus{}
			}
			return o.printUpgrade(c.OutOrStdout(), s.Upgrade)
		},
	}
}

func upgradeAbortCommand(o *options) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "abort", Short: "Give the upgrade under way up: before the switch the program stays, behind it the one before comes back", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			s, err := client.AbortUpgrade(c.Context(), why)
			if err != nil {
				return err
			}
			return o.printUpgrade(c.OutOrStdout(), &s)
		},
	}
	c.Flags().StringVar(&why, "why", "", "for the log and the status")
	return c
}

func (o *options) printUpgrade(w io.Writer, s *api.UpgradeStatus) error {
	if o.output == "json" {
		return json.NewEncoder(w).Encode(s)
	}
	printUpgradeText(w, s)
	return nil
}

// printUpgradeText is a line or two.
func printUpgradeText(w io.Writer, s *api.UpgradeStatus) {
	if s.NotUsable != "" {
		fmt.Fprintf(w, "upgrade    no pipeline runs: %s\n", s.NotUsable)
	}
	defer func() {
		for _, d := range s.Rejected {
			fmt.Fprintf(w, "rejected   %s: it has failed here; --again tries it all the same\n", d)
		}
	}()
	if s.State == "" {
		fmt.Fprintln(w, "upgrade    there was none")
		return
	}
	fmt.Fprintf(w, "upgrade    %d from %s to %s: %s", s.Number, s.From, s.To, s.State)
	if s.Slot != "" {
		fmt.Fprintf(w, ", this program is in slot %s", s.Slot)
	}
	switch onTrial := s.State == "probation" || s.State == "committing"; {
	case s.Tries > 0 && s.State != "failed" && s.State != "rolled back":
		fmt.Fprintf(w, ", %d starts are left", s.Tries)
	case onTrial:
		fmt.Fprint(w, ", no start is left: the next one goes back")
	}
	if s.Held > 0 {
		fmt.Fprintf(w, ", %d bytes of results are held back", s.Held)
	}
	if s.Offline {
		fmt.Fprint(w, ", committed without contact to the fleet")
	}
	fmt.Fprintln(w)
	if s.Stands != "" {
		fmt.Fprintf(w, "           in vain, %d times: %s\n", s.Vain, s.Stands)
	}
	if s.Waits != "" {
		fmt.Fprintf(w, "           %s\n", s.Waits)
	}
	if s.Why != "" {
		fmt.Fprintf(w, "           %s\n", s.Why)
	}
}

// upgradeNumbers are what changes from look to look: durations, and how many bytes there are.
var upgradeNumbers = regexp.MustCompile("[0-9][0-9.hmsµ]*")

// upgradeStep is what a look at an upgrade says, but for its numbers.
func upgradeStep(u *api.UpgradeStatus) string {
	return upgradeNumbers.ReplaceAllString(strings.Join([]string{u.State, u.Waits, u.Stands, u.NotUsable}, "\n"), "")
}

// upgradeLook is how often it is looked how an upgrade goes.
const upgradeLook = 500 * time.Millisecond

// upgradeSilence is how long an agent may be away before that is told: its switch to another program takes seconds.
const upgradeSilence = 20 * time.Second

// awaitUpgrade waits for the end of an upgrade, over the restarts of the agent, and tells each step: what has become of it, and what it waits for, not for how long it does. In JSON the last line has the outcome.
func (o *options) awaitUpgrade(c *cobra.Command, number uint64, last string) error {
	ctx := c.Context()
	tick := time.NewTicker(upgradeLook)
	defer tick.Stop()
	heard := time.Now()
	for {
		client, err := o.client()
		if err != nil {
			return err
		}
		s, err := client.Status(ctx)
		if err == nil {
			heard = time.Now()
		} else if time.Since(heard) > upgradeSilence {
			fmt.Fprintf(c.ErrOrStderr(), "the agent does not answer, this waits on (%v): does the service manager start it again? journalctl -u weir\n", err)
			heard = heard.Add(24 * time.Hour) // once
		}
		if err == nil && s.Upgrade != nil && s.Upgrade.Number == number {
			u := s.Upgrade
			if now := upgradeStep(u); now != last {
				last = now
				if err := o.printUpgrade(c.OutOrStdout(), u); err != nil {
					return err
				}
			}
			switch u.State {
			case "committed":
				return nil
			case "failed":
				return fmt.Errorf("the upgrade failed, and the program stays: %s", u.Why)
			case "rolled back":
				return fmt.Errorf("%w to %s: %s", errGoneBack, u.From, u.Why)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
