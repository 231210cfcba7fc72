//go:build nocentral

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func centralCommand(*options) *cobra.Command {
	return &cobra.Command{
		Use: "central", Short: "Not in this weir: it was built with the tag nocentral",
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("the central store is not in this weir: it was built with the tag nocentral")}
		},
	}
}
