package document

// State is what a gateway says of itself, signed by its own key; written when it changes, and once a day.
type State struct {
	Gateway  string            `json:"gateway"`
	Channel  string            `json:"channel"`
	Board    string            `json:"board"`
	Arch     string            `json:"arch"`
	Version  string            `json:"version"`
	Digest   string            `json:"digest"` // sha256 of the running program, hex
	Release  string            `json:"release,omitempty"`
	Root     uint64            `json:"root"`              // version of the newest root that it knows
	Serials  map[string]uint64 `json:"serials" most:"16"` // by scope
	Upgrade  *Progress         `json:"upgrade,omitempty"`
	Pipeline map[string]string `json:"pipelines,omitempty" most:"1024" each:"256"` // name: state
	Problems []string          `json:"problems,omitempty" most:"64" each:"1024"`
	Refused  map[string]uint64 `json:"refused,omitempty"` // documents, by reason
	AtMs     int64             `json:"at_ms"`
	Trusted  bool              `json:"trusted"` // the clock
}

// Progress is how a gateway fares in an upgrade: also the body of _fleet/rollout/ID/GATEWAY.json.
type Progress struct {
	Gateway string `json:"gateway"`
	Rollout string `json:"rollout,omitempty"` // id; "": by a command
	Release string `json:"release"`
	State   string `json:"state"` // agent/upgrade's
	// Outcome is how it ended: committed, rolled back, failed, gated (it was never tried: space, board, compatibility …), expired, halted. "": it has not.
	Outcome  string   `json:"outcome,omitempty"`
	Why      string   `json:"why,omitempty" most:"1024"`
	From     string   `json:"from"` // versions
	To       string   `json:"to"`
	AtMs     int64    `json:"at_ms"`
	Offline  bool     `json:"committed_offline,omitempty"`
	Saved    []string `json:"savepoints,omitempty" most:"1024" each:"1024"`
	Failures uint64   `json:"starts_failed,omitempty"`
}

// Result is what came of a command.
type Result struct {
	Gateway string   `json:"gateway"`
	Scope   string   `json:"scope"`
	Serial  uint64   `json:"serial"`
	ID      string   `json:"id"`
	Do      string   `json:"do"`
	Result  string   `json:"result"` // done, refused, failed, expired, not-for-this-gateway
	Detail  string   `json:"detail,omitempty" most:"65536"`
	AtMs    int64    `json:"at_ms"`
	Files   []string `json:"files,omitempty" most:"1024" each:"1024"`
}
