//go:build nocentral

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func keysCommand(*options) *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "Not in this weir: it was built with the tag nocentral",
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("keys of a fleet are not in this weir: it was built with the tag nocentral")}
		},
	}
}
