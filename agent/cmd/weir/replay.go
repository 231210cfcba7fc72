package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

func replayCommand(o *options) *cobra.Command {
	var file, input, name, sink, scratch string
	var quiet bool
	c := &cobra.Command{
		Use:   "replay --pipeline FILE.yaml --input RECORDING.jsonl",
		Short: "Run a pipeline over recorded messages, with virtual time, as fast as it can",
		Long: `Runs a pipeline of a config file over recorded deliveries: the engine of "weir run" with the journal, the clock and the
uplink replaced. At the end event time goes to infinity, so that every window fires.

A recording has one JSON object per line: {"n","at_ms","topic","qos","retain","dup","payload"} or "payload_b64" for bytes;
at_ms is the time of arrival. Each sink's records are printed in sequence; dead letters and counts go to standard error.
With several sinks and no --sink, each line is {"sink","seq","record"}.

A pipeline with state: {backend: pebble} has its state in a directory of its own in --scratch, within its state.memory; the directory is removed
at the end.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" || input == "" {
				return usageError{fmt.Errorf("replay needs --pipeline FILE.yaml and --input RECORDING.jsonl")}
			}
			if o.output != "" && o.output != "jsonl" && o.output != "csv" {
				return usageError{fmt.Errorf("output format is %q; allowed are jsonl, csv", o.output)}
			}
			cfg, err := config.Load(file)
			if err != nil {
				return usageError{err}
			}
			p, err := cfg.Pick(name, "--name")
			if err != nil {
				return usageError{err}
			}
			in, err := openInput(c.Context(), input, c.InOrStdin())
			if err != nil {
				return usageError{err}
			}
			defer in.Close()
			errs := c.ErrOrStderr()
			options := replay.Options{
				Graph: p.Graph, Routes: routes(p.Graph), Input: in, Sink: sink, Format: o.output, Out: c.OutOrStdout(), Dead: errs,
			}
			if quiet {
				options.Dead = nil
			}
			spendMemory()
			counts, err := replayIn(c.Context(), p.State, scratch, options)
			if err != nil {
				return err
			}
			e := json.NewEncoder(errs)
			return e.Encode(counts)
		},
	}
	f := c.Flags()
	f.StringVar(&file, "pipeline", "", "config file with the pipeline")
	f.StringVar(&input, "input", "", "recording, - for standard input")
	f.StringVar(&name, "name", "", "which pipeline, when the file has several")
	f.StringVar(&sink, "sink", "", "print this sink alone")
	f.StringVar(&scratch, "scratch", "", "with the backend pebble: where the state's directory is made (default the system's for temporary files, TMPDIR)")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not print dead letters")
	return c
}

// replayIn runs a replay with the state where the config has it.
func replayIn(ctx context.Context, s config.State, scratch string, options replay.Options) (counts replay.Counts, err error) {
	if s.Backend == config.BackendPebble {
		tables, err := replay.OpenTables(scratch, s.Memory)
		if err != nil {
			return counts, err
		}
		options.Tables = tables.New
		counts, err = replay.Run(ctx, options)
		return counts, errors.Join(err, tables.Close())
	}
	return replay.Run(ctx, options)
}

func openInput(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(heard(ctx, stdin)), nil
	}
	f, err := openRead(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return f, nil
}

func routes(g *plan.Graph) (list []replay.Route) {
	for _, s := range g.Sources {
		list = append(list, replay.Route{Source: s.Name, Match: func(name []byte) bool { return topic.Match(s.Filter, name) }})
	}
	return list
}
