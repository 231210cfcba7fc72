//go:build nocentral

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// errAttention comes from the commands that are not in this build.
var errAttention = errors.New("somebody has to act")

const exitAttention = 10

func fleetCommand(*options) *cobra.Command   { return without("fleet") }
func releaseCommand(*options) *cobra.Command { return without("release") }

func without(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Not in this weir: it was built with the tag nocentral",
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("what directs a fleet is not in this weir: it was built with the tag nocentral")}
		},
	}
}
