//go:build !weirfault

package agent

const boltPressed = false
