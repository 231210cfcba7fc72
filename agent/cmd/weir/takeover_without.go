//go:build nocentral

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// takeoverCommand tells why it is not there: the build for small devices has no room for it.
func takeoverCommand(*options) *cobra.Command {
	return &cobra.Command{
		Use: "restore", Short: "Not in this weir: it was built with the tag nocentral", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("weir restore is not in this weir: it was built with the tag nocentral; weir savepoint restore restores one pipeline")}
		},
	}
}
