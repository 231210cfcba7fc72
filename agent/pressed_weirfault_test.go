//go:build weirfault

package agent

// boltPressed: bbolt's files are on the disk that fails (store/boltkv/fault_weirfault.go).
const boltPressed = true
