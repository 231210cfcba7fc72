//go:build weirfault

package exec

import "os"

// plantedMerge: with WEIR_FAULT=merge-by-arrival a merge takes a batch's rows from the input that happens to come first, whatever their
// positions. The crash run must find it. Set once, before main.
var plantedMerge = os.Getenv("WEIR_FAULT") == "merge-by-arrival"
