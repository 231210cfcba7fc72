package pebblekv

// Metrics are sizes in bytes.
type Metrics struct {
	Disk    uint64 // files
	Written uint64 // by flushes and compactions, since the opening
	Memory  uint64 // block cache and memtables
}
