package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/fleet/document"
)

func compatCommand(o *options) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "compat", Short: "Show which versions of formats and of state this program reads and writes", Args: usageArgs(cobra.NoArgs),
		Long: `Shows what this program reads and writes that outlives it: formats on flash and at the central store, kinds of state, and what steps do.
A release carries it (--json) in its signed manifest: a gateway refuses a program that cannot read what lies on its flash, or that writes what the one that runs could not read when it is gone back to.`,
		RunE: func(c *cobra.Command, _ []string) error {
			is := compat.Current()
			if asJSON || o.output == "json" {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(is)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "KEPT\tREADS\tWRITES")
			for _, f := range compat.Formats() {
				fmt.Fprintf(w, "%s\t%s\t%d\n", f.Name, reads(f.Versions), f.Writes)
			}
			for _, kind := range slices.Sorted(maps.Keys(is.State)) {
				fmt.Fprintf(w, "state %s\t%s\t%d\n", kind, reads(is.State[kind]), is.State[kind].Writes)
			}
			for _, step := range slices.Sorted(maps.Keys(is.Behaviours)) {
				fmt.Fprintf(w, "behaviour of %s\t\t%d\n", step, is.Behaviours[step])
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON (-o json)")
	return c
}

func reads(v document.Versions) string {
	if v.Least == v.Most {
		return fmt.Sprint(v.Most)
	}
	return fmt.Sprintf("%d-%d", v.Least, v.Most)
}
