package document

// Release is what the role release signs: artifacts that a gateway may install.
type Release struct {
	Fleet     string `json:"fleet"`
	Version   string `json:"version"` // as `weir version` prints it
	CreatedMs int64  `json:"created_ms"`
	// SecureVersion rises with each release that closes a hole. A gateway installs nothing below its floor.
	SecureVersion uint64 `json:"secure_version"`
	// MinSecureVersion is the floor of a gateway once it has committed this release.
	MinSecureVersion uint64     `json:"min_secure_version"`
	Artifacts        []Artifact `json:"artifacts"`
}

// Artifact is one file to install.
type Artifact struct {
	Backend    string   `json:"backend"`                     // self or rauc
	Arch       string   `json:"arch"`                        // as GOARCH: arm64, arm, amd64
	Boards     []string `json:"boards,omitempty" each:"128"` // profiles of boards/; none: any board of that arch
	Bytes      int64    `json:"bytes"`
	SHA256     string   `json:"sha256" most:"64"` // of the whole, hex
	ChunkBytes int64    `json:"chunk_bytes"`
	Chunks     []string `json:"chunks" most:"16384" each:"64"` // sha256 of each, hex, in order
	Compat     Compat   `json:"compat"`
}

// Compat is what a program reads and writes, by kind of format or state: as `weir compat` prints it.
type Compat struct {
	// Formats are those that a roll-back has to read: journal, registry, identity, clock, outbox, savepoint …
	Formats map[string]Versions `json:"formats" most:"256"`
	// State are the kinds of state that savepoints hold, by the type that these give to a table: ops.dedup.
	State map[string]Versions `json:"state" most:"256"`
	// Behaviours are the versions of what steps do, by their kind. One that rises keeps no program away: where a replay begins before it, its streams begin a new generation.
	Behaviours map[string]uint64 `json:"behaviours,omitempty" most:"256"`
}

// Versions are the versions of one format.
type Versions struct {
	Least  uint64 `json:"least"`  // lowest that is read
	Most   uint64 `json:"most"`   // highest that is read
	Writes uint64 `json:"writes"` // what is written
}
