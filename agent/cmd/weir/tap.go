package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
)

func tapCommand(o *options) *cobra.Command {
	var tap api.TapOptions
	c := &cobra.Command{
		Use: "tap PIPELINE STEP[.PORT]...", Short: "See rows pass a step, live",
		Long: `tap prints the rows that leave a step of a running pipeline, one JSON object per line: from (the step), position (in the journal), time (event
time, Unix ms) and row. STEP may be a source that the pipeline reads. The pipeline never waits for tap: rows that it is too slow for are dropped,
and a line {"dropped":N} says how many.`,
		Example: `  weir tap alarms hot --count 5
  weir tap alarms hot split.rest
  weir tap alarms --sources`,
		Args: usageArgs(func(c *cobra.Command, args []string) error {
			if len(args) == 1 && tap.Sources {
				return nil
			}
			return cobra.MinimumNArgs(2)(c, args)
		}),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			tap.Steps = args[1:]
			err = client.Tap(c.Context(), args[0], tap, func(line []byte) error { return printTapped(c, line) })
			if errors.Is(err, context.Canceled) {
				return nil // Ctrl-C is how a tap ends
			}
			return err
		},
	}
	c.Flags().Uint64Var(&tap.Count, "count", 0, "end after so many rows")
	c.Flags().BoolVar(&tap.Sources, "sources", false, "also the rows of the pipeline's sources")
	return c
}

// errTapEnded: the tap's pipeline stopped or failed; weir status tells.
var errTapEnded = errors.New("the tap ended")

// printTapped prints a row, or says on standard error what the tap has to say besides.
func printTapped(c *cobra.Command, line []byte) error {
	var control struct {
		Tap string `json:"tap"`
		End string `json:"end"`
	}
	if !bytes.HasPrefix(line, []byte(`{"from":`)) {
		if err := json.Unmarshal(line, &control); err != nil {
			return fmt.Errorf("read tap: %w", err)
		}
		if control.End != "" {
			return fmt.Errorf("%w: %s", errTapEnded, control.End)
		}
		if control.Tap != "" {
			return nil
		}
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", escaped(line))
	return err
}

// escaped writes what would act on a terminal, or hide there, as \u escapes: controls, C1 codes, directions, invisible marks. JSON has such
// characters inside strings alone, so that it stays the same JSON. Bytes that are no text become U+FFFD.
func escaped(line []byte) []byte {
	out := make([]byte, 0, len(line))
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case strconv.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[n:]
	}
	return out
}
