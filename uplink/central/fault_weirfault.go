//go:build weirfault

package central

import "os"

// built are the faults that the environment plants: with WEIR_FAULT=central-head-first a head is moved before what it names is in the store.
func built() planted { return planted{headFirst: os.Getenv("WEIR_FAULT") == "central-head-first"} }
