package document

// Rollout is what the role deploy signs: which release the gateways of a channel are to run. One document serves the whole fleet.
type Rollout struct {
	Fleet     string `json:"fleet"`
	Serial    uint64 `json:"serial"` // scope rollout/CHANNEL
	Channel   string `json:"channel"`
	ID        string `json:"id"`      // of the roll-out; stays over its waves
	Release   string `json:"release"` // sha256 of the release manifest's payload, hex
	CreatedMs int64  `json:"created_ms"`
	ExpiresMs int64  `json:"expires_ms,omitempty"` // nobody begins behind it; 0: never
	// Permille is how many of a thousand gateways are in: those with sha256(id‖gateway) mod 1000 below it.
	Permille int      `json:"permille"`
	Halted   bool     `json:"halted,omitempty"`
	Audience Audience `json:"audience"`
	Policy   Policy   `json:"policy"`
	Limits   Limits   `json:"limits"`
	Waves    []Wave   `json:"waves,omitempty"`
	Wave     int      `json:"wave"`    // index of the one that runs
	WaveMs   int64    `json:"wave_ms"` // when it began, Unix ms of the publisher
	WhyHalt  string   `json:"why_halted,omitempty" most:"1024"`
}

// Audience is who a document is for: all members that are set must hold. None set: every gateway of the channel.
type Audience struct {
	Gateways []string `json:"gateways,omitempty" most:"4096" each:"128"`
	Boards   []string `json:"boards,omitempty" most:"64" each:"128"`
}

// Policy is how gateways upgrade.
type Policy struct {
	Savepoint string `json:"savepoint"` // required: uploaded before the switch; best-effort
	// ProbationMs is how long the new program is on trial at least, in ms; 0: the gateway's own setting.
	ProbationMs int64 `json:"probation_ms,omitempty"`
	// DiscardState lets a program begin that cannot read the state.
	DiscardState bool `json:"discard_state,omitempty"`
	// AllowDuplicates lets pipelines upgrade whose sinks cannot be held.
	AllowDuplicates bool `json:"allow_duplicates,omitempty"`
	// Window is the gateway's local time of day within which it may switch, "02:00-04:30"; "": any.
	Window string `json:"window,omitempty"`
	// Again lets a program be tried that has failed on the gateway before.
	Again bool `json:"again,omitempty"`
}

// Limits are when `weir fleet` halts a roll-out.
type Limits struct {
	MaxFailedPermille int   `json:"max_failed_permille"` // of those that ended or fell silent
	MinReports        int   `json:"min_reports"`         // before that is asked
	SilenceMs         int64 `json:"silence_ms"`          // switched, and nothing heard for so long: failed
}

// Wave is a step of a roll-out.
type Wave struct {
	Permille int   `json:"permille"`
	SoakMs   int64 `json:"soak_ms"` // how long it runs at least before the next
}
