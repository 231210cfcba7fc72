package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
)

func versionCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			v := map[string]string{"version": agent.Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(v)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "weir %s (%s %s/%s)\n", v["version"], v["go"], v["os"], v["arch"])
			return err
		},
	}
}
