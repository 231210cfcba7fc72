package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/boards"
)

// errNoBoard ends weir boards detect where no profile is of the machine.
var errNoBoard = errors.New("no profile is of this machine")

func boardsCommand(o *options) *cobra.Command {
	var root string
	c := &cobra.Command{
		Use: "boards", Short: "List the gateways that weir knows, tell which one this is, print what its service needs",
		Long: `A board's profile sets defaults of the config: weir check shows which, and docs/boards.md tells about the rest of it.`,
	}
	detect := &cobra.Command{
		Use: "detect", Short: "Tell which board this machine is, and why", Args: usageArgs(cobra.NoArgs),
		Long: `Compares what the device tree and the firmware (DMI) of this machine say with the profiles. The most specific name counts; where no profile has any, it is
the one for other machines with this processor, which sets nothing, and the exit code is 9.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.detectBoard(c.OutOrStdout(), boards.Read(root)) },
	}
	unit := &cobra.Command{
		Use: "unit [BOARD]", Short: "Print a systemd drop-in with the limits of a board, left out: of this machine", Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f := boards.Facts{}
			if len(args) == 0 {
				f = boards.Read(root)
				args = []string{boards.Pick(boards.Index(), f).ID}
			}
			p, err := config.Profile(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = io.WriteString(c.OutOrStdout(), boards.DropIn(p, f))
			return err
		},
	}
	for _, sub := range []*cobra.Command{detect, unit} {
		sub.Flags().StringVar(&root, "root", "/", "directory with the machine's proc and sys")
	}
	c.AddCommand(
		&cobra.Command{
			Use: "ls", Short: "List the boards", Args: usageArgs(cobra.NoArgs),
			RunE: func(c *cobra.Command, _ []string) error { return o.listBoards(c.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "show BOARD", Short: "Print the profile of a board", Args: usageArgs(cobra.ExactArgs(1)),
			RunE: func(c *cobra.Command, args []string) error { return o.showBoard(c.OutOrStdout(), args[0]) },
		},
		detect, unit,
		&cobra.Command{
			Use: "schema", Short: "Print the JSON Schema of a profile", Args: usageArgs(cobra.NoArgs),
			RunE: func(c *cobra.Command, _ []string) error {
				_, err := c.OutOrStdout().Write(config.ProfileSchema())
				return err
			},
		},
	)
	return c
}

func (o *options) listBoards(w io.Writer) error {
	list := config.Profiles()
	if o.output == "json" {
		return json.NewEncoder(w).Encode(list)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BOARD\tARCH\tLINGER\tCHECKPOINT\tGOMEMLIMIT\tTESTED\tNAME")
	for _, p := range list {
		linger, interval, memory := "", "", ""
		if ms := p.Journal.LingerMs; ms > 0 {
			linger = config.FormatDuration(time.Duration(ms) * time.Millisecond)
		}
		if s := p.Checkpoint.IntervalS; s > 0 {
			interval = config.FormatDuration(time.Duration(s) * time.Second)
		}
		if b := p.Limits.GOMEMLIMIT; b > 0 {
			memory = config.FormatSize(b)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.Arch, cmp.Or(linger, "-"), cmp.Or(interval, "-"), cmp.Or(memory, "-"), p.Tested, p.Name)
	}
	return t.Flush()
}

func (o *options) showBoard(w io.Writer, id string) error {
	p, err := config.Profile(id)
	if err != nil {
		return usageError{err}
	}
	if o.output == "json" {
		return json.NewEncoder(w).Encode(p)
	}
	_, text := boards.Text(id)
	_, err = w.Write(text)
	return err
}

// detection is the JSON form of weir boards detect.
type detection struct {
	boards.Choice
	Name  string       `json:"name,omitempty"`
	Facts boards.Facts `json:"facts"`
}

func (o *options) detectBoard(w io.Writer, f boards.Facts) error {
	d := detection{Choice: boards.Pick(boards.Index(), f), Facts: f}
	if p, err := config.Profile(d.ID); err == nil {
		d.Name = p.Name
	}
	if o.output == "json" {
		if err := json.NewEncoder(w).Encode(d); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "board %s: %s\n  because %s\n", cmp.Or(d.ID, "unknown"), cmp.Or(d.Name, "no profile"), d.Why)
		for _, other := range d.Others {
			fmt.Fprintf(w, "  not %s\n", other)
		}
		for _, fact := range []struct{ name, text string }{{"model", f.Model}, {"device tree", strings.Join(f.Compatible, ", ")}, {"firmware", strings.TrimSpace(f.Vendor + " " + f.Product)}, {"processor", f.Machine}} {
			if fact.text != "" {
				fmt.Fprintf(w, "  %s: %s\n", fact.name, fact.text)
			}
		}
	}
	if d.ID == "" || boards.Generic(d.ID) {
		return errNoBoard
	}
	return nil
}

// boardReport is the board in the JSON form of weir check.
type boardReport struct {
	boards.Choice
	Values []config.Value `json:"values"`
}

// printBoard tells which settings are of the board, and why.
func printBoard(w io.Writer, b *config.Board) error {
	fmt.Fprintf(w, "board %s: %s\n", cmp.Or(b.ID, "unknown"), b.Why)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range b.Values {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", v.Setting, v.Value, v.From)
	}
	return t.Flush()
}
