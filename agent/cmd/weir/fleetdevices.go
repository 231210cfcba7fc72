//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/central"
)

// deviceRow is a line of weir fleet devices.
type deviceRow struct {
	Gateway  string    `json:"gateway"`
	Channel  string    `json:"channel"`
	Board    string    `json:"board,omitempty"`
	Arch     string    `json:"arch,omitempty"`
	Version  string    `json:"version,omitempty"`
	Release  string    `json:"release,omitempty"`
	Heard    time.Time `json:"heard"` // by the store's clock
	Verified bool      `json:"verified"`
	Problem  string    `json:"problem,omitempty"`
}

func fleetDevicesCommand(f *fleetFlags) *cobra.Command {
	all, pin := false, ""
	c := &cobra.Command{
		Use: "devices", Short: "List the gateways of a channel: what they run, and when they were heard of", Args: usageArgs(cobra.NoArgs),
		Long: `What a gateway says of itself is signed by its key. --pin adds the keys of gateways that have none in that file yet, as their claims in the store have them: look at them once (weir central key prints a gateway's), then give the
file as --device-keys. Keys that are in the file are never changed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			told, s, err := fl.reader.Gateways(c.Context(), true)
			if err != nil {
				return err
			}
			rows := []deviceRow{}
			for _, name := range slices.Sorted(maps.Keys(told)) {
				if t := told[name]; all || t.Channel == fl.channel {
					rows = append(rows, deviceRow{name, t.Channel, t.Board, t.Arch, t.Version, t.Running, time.UnixMilli(t.WrittenMs).UTC(), t.Verified, t.Problem})
				}
			}
			err = f.say(c, rows, func() {
				t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(t, "GATEWAY\tCHANNEL\tBOARD\tARCH\tVERSION\tHEARD\tVERIFIED\tPROBLEM")
				for _, r := range rows {
					verified := "no key"
					if r.Verified {
						verified = "yes"
					}
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Gateway, r.Channel, r.Board, r.Arch, r.Version, r.Heard.Format("2006-01-02 15:04"), verified, oneLine(r.Problem))
				}
				t.Flush()
			})
			if len(rows) == 0 {
				fmt.Fprintf(c.ErrOrStderr(), "no gateway of channel %s has ever reported here: see --channel, --all and --store\n", fl.channel)
			}
			tellSummary(c.ErrOrStderr(), 0, s.Refused, s.Example)
			if err != nil || pin == "" {
				return err
			}
			return fl.pin(c, pin, rows)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "of all channels")
	c.Flags().StringVar(&pin, "pin", "", "add the keys of those that are listed to this file")
	return c
}

// pin adds keys to a file. A claim says which key a gateway has; whoever may write to the store could have written it, so it is believed once, and for gateways that nobody has vouched for.
func (fl *fleet) pin(c *cobra.Command, path string, rows []deviceRow) error {
	if b, err := os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
		b = nil
	} else if err != nil {
		return err
	} else if len(b) > 0 && b[len(b)-1] != '\n' {
		return usageError{fmt.Errorf("%s does not end with a line's end", path)}
	}
	have, err := readDeviceKeys(c.Context(), path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return usageError{err}
	}
	var lines strings.Builder
	added := 0
	for _, r := range rows {
		claim, _, err := central.ReadClaim(c.Context(), fl.Bucket, r.Gateway)
		if err != nil || claim.Key == "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s: no key in its claim: %v\n", r.Gateway, err)
			continue
		}
		key, err := signed.ParsePublic([]byte(claim.Key))
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s: the key in its claim: %v\n", r.Gateway, err)
			continue
		}
		switch old := have[r.Gateway]; {
		case old == nil:
			fmt.Fprintf(&lines, "%s %s\n", r.Gateway, signed.FormatLine(key))
			added++
		case !old.Equal(key):
			fmt.Fprintf(c.ErrOrStderr(), "%s: its claim has another key than the file: its hardware was replaced, or somebody else speaks for it; nothing was changed\n", r.Gateway)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(lines.String())
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d keys added to %s: reports count by them where it is given as --device-keys\n", added, path)
	return nil
}
