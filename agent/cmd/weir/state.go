package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

func stateCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "state", Short: "Look into the state that a savepoint holds, and change copies of it",
		Long: `Works on savepoint files: "weir savepoint create" makes one of a running pipeline, "weir savepoint restore" puts one back. The file that is
read is never changed.`,
	}
	c.AddCommand(stateListCommand(), stateShowCommand(), stateExportCommand(), stateImportCommand(o), stateRenameCommand(o), stateDropCommand(o))
	return c
}

func stateListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls FILE", Short: "List the tables with their sizes", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := restore.ReadSavepoint(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(t, "STEP\tTABLE\tTYPE\tVERSION\tENTRIES")
			counts := f.Counts()
			for i, table := range f.Head.Tables {
				fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\n", table.UID, table.Name, table.Type, table.Version, counts[i])
			}
			return t.Flush()
		},
	}
}

func stateShowCommand() *cobra.Command {
	limit := 100
	c := &cobra.Command{
		Use: "show FILE STEP", Short: "Print a step's entries: key, subkey, value, as quoted bytes", Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := restore.ReadSavepoint(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			return showStep(c, f, args[1], limit)
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "at most so many entries of each table, 0: all")
	return c
}

func showStep(c *cobra.Command, f *savepoint.File, uid string, limit int) error {
	found := false
	w := c.OutOrStdout()
	for _, t := range f.Head.Tables {
		if t.UID != uid {
			continue
		}
		found = true
		n := 0
		_, _, err := f.Entries(uid, t.Name, func(key, sub, val []byte) error {
			if n++; limit > 0 && n > limit {
				return nil
			}
			_, err := fmt.Fprintf(w, "%s %q %q %q\n", t.Name, key, sub, val)
			return err
		})
		if err != nil {
			return err
		}
		if limit > 0 && n > limit {
			fmt.Fprintf(w, "%s: %d more; --limit 0 shows all\n", t.Name, n-limit)
		}
	}
	if !found {
		return usageError{fmt.Errorf("the savepoint has no state of a step %q; see weir state ls", uid)}
	}
	return nil
}

func stateExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export FILE", Short: "Print a savepoint as JSON lines: head, results, entries", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := restore.ReadSavepoint(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			return savepoints.Export(f, c.OutOrStdout())
		},
	}
}

func stateImportCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "import NEW-FILE", Short: "Make a savepoint of JSON lines on standard input, in the order of export", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			sum, err := savepoints.Import(c.Context(), disk.OS, heard(c.Context(), c.InOrStdin()), args[0], log.NewCodec())
			if err != nil {
				return err
			}
			return o.wrote(c, args[0], sum)
		},
	}
}

func stateRenameCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "rename-uid FILE NEW-FILE OLD=NEW...", Short: "Copy a savepoint, with steps under other uids", Args: usageArgs(cobra.MinimumNArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			e := savepoints.Edit{Rename: map[string]string{}}
			for _, pair := range args[2:] {
				from, to, ok := strings.Cut(pair, "=")
				if !ok || from == "" || to == "" {
					return usageError{fmt.Errorf("%q: OLD=NEW is allowed", pair)}
				}
				e.Rename[from] = to
			}
			return o.edit(c, args[0], args[1], e)
		},
	}
}

func stateDropCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "drop FILE NEW-FILE STEP...", Short: "Copy a savepoint without the state of some steps", Args: usageArgs(cobra.MinimumNArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.edit(c, args[0], args[1], savepoints.Edit{Drop: args[2:]})
		},
	}
}

func (o *options) edit(c *cobra.Command, from, to string, e savepoints.Edit) error {
	f, err := restore.ReadSavepoint(c.Context(), from)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := savepoints.Copy(c.Context(), disk.OS, f, to, e, log.NewCodec())
	if err != nil {
		return err
	}
	return o.wrote(c, to, sum)
}

func (o *options) wrote(c *cobra.Command, name string, sum savepoint.Summary) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes, %d entries, %d results\n", name, sum.Bytes, sum.Entries, sum.Results)
	return err
}
