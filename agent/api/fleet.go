package api

// FleetStatus is how this gateway stands with its fleet.
type FleetStatus struct {
	Channel string            `json:"channel"`
	Root    uint64            `json:"root"`              // number of the newest root document
	Serials map[string]uint64 `json:"serials,omitempty"` // of the documents that count, by scope
	Rollout string            `json:"rollout,omitempty"` // the newest that counts
	Halted  bool              `json:"halted,omitempty"`
	// ContactSeconds is how long ago the store was read in full; -1: not since the start.
	ContactSeconds float64 `json:"contact_seconds"`
	// AgeSeconds is how old the newest document is, by the clock; -1: there is none, or the clock is not trusted. A store that gives old documents makes it rise.
	AgeSeconds float64           `json:"age_seconds"`
	Bell       bool              `json:"bell"`             // the doorbell is heard
	Error      string            `json:"error,omitempty"`  // why the store was not read in full
	Broken     string            `json:"broken,omitempty"` // why nobody can direct this gateway
	Begun      int               `json:"begun"`            // commands under way
	Unsent     int               `json:"unsent"`           // results that are not in the store yet
	Polls      uint64            `json:"polls"`
	Failures   uint64            `json:"failures"`
	Rings      uint64            `json:"rings"`
	BadRings   uint64            `json:"bad_rings"`
	Reports    uint64            `json:"reports"`
	Writes     uint64            `json:"writes"`             // of the ledger, to flash
	Commands   map[string]uint64 `json:"commands,omitempty"` // by result
	Refused    map[string]uint64 `json:"refused,omitempty"`  // documents, by reason
}
