//go:build !nocentral

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket"
)

func releaseCommand(o *options) *cobra.Command {
	f := &fleetFlags{options: o}
	c := &cobra.Command{
		Use: "release", Short: "Make, list and verify the releases that a fleet's gateways can be given",
		Long: "A release names programs by their sha256, says what each is for and what it can read, and is signed by the role release (docs/fleet.md). It reaches a gateway by weir fleet rollout.",
	}
	f.add(c)
	c.AddCommand(releaseCreateCommand(f), releaseListCommand(f), releaseShowCommand(f), releaseVerifyCommand(f))
	return c
}

// releaseRow is a line of weir release ls.
type releaseRow struct {
	Release       string            `json:"release"` // sha256 of the manifest's payload
	Version       string            `json:"version,omitempty"`
	Created       *time.Time        `json:"created,omitempty"`
	SecureVersion uint64            `json:"secure_version"`
	Artifacts     []string          `json:"artifacts,omitempty"`
	Problem       string            `json:"problem,omitempty"`
	is            *document.Release `json:"-"`
}

// releases are all that lie in the store, newest first; those that do not count have a Problem.
func (fl *fleet) releases(ctx context.Context) (rows []releaseRow, err error) {
	var names []string
	err = bucket.Each(ctx, fl.Bucket, depot.Prefix+"release/", func(o bucket.Object) error {
		if n, err := depot.Parse(o.Name); err == nil && n.Kind == depot.KindRelease {
			names = append(names, n.SHA)
		}
		return nil
	})
	for _, sha := range names {
		row := releaseRow{Release: sha}
		if r, _, err := fl.Release(ctx, fl.trust, sha); err != nil {
			row.Problem = err.Error()
		} else {
			at := time.UnixMilli(r.CreatedMs).UTC()
			row.Version, row.Created, row.SecureVersion, row.is = r.Version, &at, r.SecureVersion, r
			for i := range r.Artifacts {
				row.Artifacts = append(row.Artifacts, forWhom(&r.Artifacts[i]))
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b releaseRow) int {
		switch {
		case a.is == nil || b.is == nil:
			return strings.Compare(a.Problem, b.Problem)
		case a.is.CreatedMs != b.is.CreatedMs:
			return int(max(-1, min(1, b.is.CreatedMs-a.is.CreatedMs)))
		}
		return strings.Compare(a.Release, b.Release)
	})
	return rows, err
}

func forWhom(a *document.Artifact) string {
	boards := "any board"
	if len(a.Boards) > 0 {
		boards = strings.Join(a.Boards, "+")
	}
	return fmt.Sprintf("%s %s (%s)", a.Arch, a.Backend, boards)
}

// release finds one by version, or by the beginning of its sha256.
func (fl *fleet) release(ctx context.Context, what string) (*releaseRow, error) {
	rows, err := fl.releases(ctx)
	if err != nil {
		return nil, err
	}
	var found []releaseRow
	for _, r := range rows {
		if r.Version == what || len(what) >= 8 && strings.HasPrefix(r.Release, what) {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 0:
		return nil, usageError{fmt.Errorf("no release %s is in the store: see weir release ls", what)}
	case len(found) > 1:
		return nil, usageError{fmt.Errorf("%d releases are called %s: give the beginning of the sha256, see weir release ls", len(found), what)}
	case found[0].is == nil:
		return nil, errors.New(found[0].Problem)
	}
	return &found[0], nil
}

func releaseListCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the releases in the store, and whether their signatures count", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			rows, err := fl.releases(c.Context())
			if err != nil {
				return err
			}
			if rows == nil {
				rows = []releaseRow{}
			}
			return f.say(c, rows, func() {
				t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(t, "VERSION\tSECURE\tMADE\tFOR\tRELEASE")
				for _, r := range rows {
					if r.is == nil {
						fmt.Fprintf(t, "refused\t\t\t%s\t%.12s\n", document.Clean(r.Problem, 160), r.Release)
						continue
					}
					fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.12s\n", r.Version, r.SecureVersion, r.Created.Format("2006-01-02 15:04"), strings.Join(r.Artifacts, ", "), r.Release)
				}
				t.Flush()
			})
		},
	}
}

func releaseShowCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show VERSION|SHA256", Short: "Show a release: its programs, and what they can read", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			r, err := fl.release(c.Context(), args[0])
			if err != nil {
				return err
			}
			return f.say(c, r.is, func() { printRelease(c, r) })
		},
	}
}

func printRelease(c *cobra.Command, r *releaseRow) {
	w := c.OutOrStdout()
	fmt.Fprintf(w, "release %s of fleet %s, made %s\n  sha256 %s\n  secure version %d; a gateway that has committed it takes none below %d\n", r.is.Version, r.is.Fleet, r.Created.Format("2006-01-02 15:04"), r.Release,
		r.is.SecureVersion, r.is.MinSecureVersion)
	for i := range r.is.Artifacts {
		a := &r.is.Artifacts[i]
		fmt.Fprintf(w, "  %s: %d bytes in %d pieces, sha256 %.12s; reads %d formats and %d kinds of state\n", forWhom(a), a.Bytes, len(a.Chunks), a.SHA256, len(a.Compat.Formats), len(a.Compat.State))
	}
}

func releaseVerifyCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "verify VERSION|SHA256", Short: "Verify a release, and read every piece of its programs", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			r, err := fl.release(c.Context(), args[0])
			if err != nil {
				return err
			}
			for i := range r.is.Artifacts {
				a := &r.is.Artifacts[i]
				if err := fl.Verify(c.Context(), a, f.pieces(c, forWhom(a))); err != nil {
					return fmt.Errorf("%s: %w; weir release create --again puts all pieces anew", forWhom(a), err)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: whole\n", forWhom(a))
			}
			return nil
		},
	}
}

// pieces tells a terminal how far it is.
func (f *fleetFlags) pieces(c *cobra.Command, what string) func(done, of int) {
	if f.output == "json" || !isTerminal(c) {
		return nil
	}
	return func(done, of int) {
		end := ""
		if done == of {
			end = "\n"
		}
		fmt.Fprintf(c.ErrOrStderr(), "\r%s: piece %d of %d\x1b[K%s", what, done, of, end)
	}
}
