package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/trial"
)

// errTestsFailed is told after the outcomes have been printed.
var errTestsFailed = errors.New("not every case passed")

func testCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE.test.yaml | DIRECTORY ...",
		Short: "Run pipelines against cases: messages in, expected results out, with crashes and restarts in between",
		Long: `Runs the cases of test files in virtual time: engine, checkpoints and restore of "weir run", with broker, clock and upstream
replaced. A case with crash_at or restart_at runs a second time with them: the upstream must then hold exactly the same results.
docs/testing.md describes the file. A directory stands for its *.test.yaml. Exit code 1: a case did not pass; 2: a file is wrong.`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			files, err := openTests(args)
			if err != nil {
				return usageError{err}
			}
			var all []trial.Outcome
			for _, f := range files {
				outcomes, err := f.Run(c.Context())
				if err != nil {
					return err
				}
				if o.output != "json" {
					for _, r := range outcomes {
						printOutcome(c, &r)
					}
				}
				all = append(all, outcomes...)
			}
			failed := 0
			for _, r := range all {
				if !r.Passed {
					failed++
				}
			}
			if o.output == "json" {
				err = json.NewEncoder(c.OutOrStdout()).Encode(all)
			} else {
				fmt.Fprintf(c.OutOrStdout(), "%d passed, %d failed\n", len(all)-failed, failed)
			}
			if err == nil && failed > 0 {
				err = errTestsFailed
			}
			return err
		},
	}
}

func printOutcome(c *cobra.Command, r *trial.Outcome) {
	if !r.Passed {
		fmt.Fprintf(c.OutOrStdout(), "FAIL %s: %s\n  %s\n", r.File, r.Case, r.Reason)
		return
	}
	fmt.Fprintf(c.OutOrStdout(), "ok   %s: %s (%d messages, %d results", r.File, r.Case, r.Messages, r.Results)
	if r.Crashes+r.Restarts > 0 {
		fmt.Fprintf(c.OutOrStdout(), "; the same after %d crashes and %d restarts", r.Crashes, r.Restarts)
	}
	fmt.Fprintln(c.OutOrStdout(), ")")
}

// openTests reads and checks all files before the first case runs.
func openTests(args []string) (files []*trial.File, err error) {
	for _, arg := range args {
		names := []string{arg}
		if within, _ := filepath.Glob(filepath.Join(arg, "*.test.yaml")); len(within) > 0 {
			names = slices.Sorted(slices.Values(within))
		}
		for _, name := range names {
			f, err := trial.Open(name)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}
