//go:build !weirfault

package main

// plantedHoard is a fault of the tests' build.
const plantedHoard = false
