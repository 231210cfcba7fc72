package document

// Commands is what the role deploy signs: what the gateways of its scope are to do, each once, in rising order of Serial.
type Commands struct {
	Fleet     string    `json:"fleet"`
	Scope     string    `json:"scope"`  // commands/CHANNEL or device/GATEWAY
	Serial    uint64    `json:"serial"` // of the document: that of its newest command, or more
	CreatedMs int64     `json:"created_ms"`
	List      []Command `json:"list" most:"64"` // older ones drop out
}

// Command is one thing to do.
type Command struct {
	Serial    uint64   `json:"serial"` // within the scope
	ID        string   `json:"id"`
	Do        string   `json:"do"` // savepoint, stop, start, restart-pipeline, apply, restart, upgrade, diagnostics, rotate-key
	CreatedMs int64    `json:"created_ms"`
	ExpiresMs int64    `json:"expires_ms,omitempty"`
	Audience  Audience `json:"audience"`

	Pipeline  string  `json:"pipeline,omitempty"`             // savepoint, stop, start, restart-pipeline; "": all
	Config    string  `json:"config,omitempty" most:"262144"` // apply: the text of the config file
	Allow     bool    `json:"allow_dropped_state,omitempty"`
	DryRun    bool    `json:"dry_run,omitempty"`
	Release   string  `json:"release,omitempty"` // upgrade: sha256 of the release manifest's payload
	Policy    *Policy `json:"policy,omitempty"`  // upgrade
	WithStop  bool    `json:"stop,omitempty"`    // savepoint: stop behind it
	Upload    bool    `json:"upload,omitempty"`  // savepoint, diagnostics
	PublicKey string  `json:"public_key,omitempty"`
}
