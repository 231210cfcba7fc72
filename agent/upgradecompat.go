//go:build !nocentral

package agent

import "github.com/weirstream/weir/fleet/document"

// Compat is what this program reads and writes.
func Compat() document.Compat { return document.Compat{} }
