package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
)

// selftestBytesMax bounds a config that is handed over.
const selftestBytesMax = 16 << 20

func selftestCommand(o *options) *cobra.Command {
	var stdin bool
	c := &cobra.Command{
		Use: "selftest", Short: "Tell whether this program can run a config, before it is installed",
		Long: `Loads the config as weir run would, and says which version this is. Nothing is opened for writing, no broker and no upstream is connected: the agent that runs goes on.
An agent asks each program so before it installs it (weir upgrade).`,
		Example: `  weir selftest -c weir.yaml`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.selftested(heard(c.Context(), c.InOrStdin()), stdin)
			if err != nil {
				return usageError{err}
			}
			report, err := agent.Selftest(cfg)
			if err != nil {
				return usageError{err}
			}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(report)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "weir %s can run %s: %d pipelines\n", report.Version, cfg.File, report.Pipelines)
			return err
		},
	}
	c.Flags().BoolVar(&stdin, "stdin", false, "the config's text comes from standard input; the file of -c only names it")
	return c
}

func (o *options) selftested(in io.Reader, stdin bool) (*config.Config, error) {
	if !stdin {
		return config.Load(o.config)
	}
	text, err := io.ReadAll(io.LimitReader(in, selftestBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	return config.LoadText(o.config, text)
}
