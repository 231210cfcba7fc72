// Package api is the agent's HTTP interface on a unix socket: status, checkpoints, pipelines, dead letters, metrics, health.
//
// It keeps nothing. Whoever may open the socket (mode 0660, owner and group of the service) is admin; there is no TCP
// listener. Answers are JSON; errors are {"error": "..."} with a status code that says whose fault it was.
package api

import (
	"fmt"
	"time"
)

// Status is the answer of GET /v1/status.
type Status struct {
	Gateway   string           `json:"gateway"`
	Identity  IdentityStatus   `json:"identity"`
	Version   string           `json:"version"`
	Started   time.Time        `json:"started"`
	Clock     ClockStatus      `json:"clock"`
	Journal   JournalStatus    `json:"journal"`
	Sessions  []SessionStatus  `json:"sessions"`
	Pipelines []PipelineStatus `json:"pipelines"`
	Apply     *ApplyStatus     `json:"apply,omitempty"`   // the last one, or that under way
	Upgrade   *UpgradeStatus   `json:"upgrade,omitempty"` // the last one, or that under way
	Fleet     *FleetStatus     `json:"fleet,omitempty"`
	Flash     *FlashStatus     `json:"flash,omitempty"`
	// Problems are what an operator should look at now, one sentence each.
	Problems []string `json:"problems,omitempty"`
}

// IdentityStatus is who this device is, and whether another has taken its place.
type IdentityStatus struct {
	Incarnation string `json:"incarnation"` // major.minor
	Board       string `json:"board"`
	Fenced      string `json:"fenced,omitempty"` // why it works no more; "" it works
	// What it has not delivered; nil: not counted (it is not fenced, or pipelines are still stopping).
	Stranded *StrandedStatus `json:"stranded,omitempty"`
}

// StrandedStatus counts what lies on a fenced device.
type StrandedStatus struct {
	Results uint64 `json:"results"` // made, and confirmed by no upstream
	Records uint64 `json:"records"` // received, and of no result or state yet
	Bytes   int64  `json:"bytes"`
}

// ClockStatus is the stamp that journal frames get now.
type ClockStatus struct {
	ElapsedSeconds float64 `json:"elapsed_seconds"`
	WallMs         int64   `json:"wall_ms"`
	Trusted        bool    `json:"trusted"`
	FloorMs        int64   `json:"floor_ms"` // a wall clock before it is not trusted
	Steps          uint64  `json:"steps"`    // times that the wall clock was set since the start
	LastStepMs     int64   `json:"last_step_ms,omitempty"`
	SleptSeconds   float64 `json:"slept_seconds,omitempty"` // that the machine was suspended since the start
}

// JournalStatus tells what the journal holds.
type JournalStatus struct {
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Durable  uint64 `json:"durable"`
	Bytes    int64  `json:"bytes"`
	BytesMax int64  `json:"bytes_max"`
	Written  uint64 `json:"bytes_written_total"`
	Syncs    uint64 `json:"syncs_total"`
	Full     bool   `json:"full"`
	Failed   string `json:"failed,omitempty"`
	Waits    string `json:"waits,omitempty"` // why a write waits: the disk is full or read-only
}

// SessionStatus is one broker session.
type SessionStatus struct {
	Name     string            `json:"name"`
	URL      string            `json:"url"`
	State    string            `json:"state"`
	Error    string            `json:"error,omitempty"`
	Counters map[string]uint64 `json:"counters"`
	// Drops is what the broker counts of dropped messages; nil where dropped_topic is not set.
	Drops *BrokerDrops `json:"broker_drops,omitempty"`
}

// BrokerDrops are messages of all clients of a broker that it dropped, by its own word.
type BrokerDrops struct {
	Dropped uint64 `json:"dropped"`         // since the agent looked first
	Away    uint64 `json:"session_away"`    // of these, between two readings in which weir's session was away or held back
	Before  uint64 `json:"before"`          // since the broker's start, when the agent looked first
	Error   string `json:"error,omitempty"` // why it is not known
}

// PipelineStatus is one pipeline with its ledger.
type PipelineStatus struct {
	Name       string           `json:"name"`
	UUID       string           `json:"uuid"`
	State      string           `json:"state"` // starting | running | restarting | failed | stopped
	Error      string           `json:"error,omitempty"`
	Restarts   uint64           `json:"restarts"`
	Position   uint64           `json:"position"`            // up to which it has worked; of one that does not run: from which it holds the journal
	Lag        uint64           `json:"lag"`                 // records in the journal behind Position
	LagBytes   int64            `json:"lag_bytes"`           // journal bytes of these, estimated by their share
	LagLimit   int64            `json:"lag_limit,omitempty"` // lag_limit of the config; 0: none
	Checkpoint CheckpointStatus `json:"checkpoint"`
	// Progress is what takes long just now: a restore, a savepoint. nil: nothing.
	Progress *Progress      `json:"progress,omitempty"`
	Large    *StateStatus   `json:"large_state,omitempty"` // with the backend pebble
	Central  *CentralStatus `json:"central,omitempty"`     // with a central store
	Tasks    []TaskStatus   `json:"tasks"`
	Sources  []SourceLedger `json:"sources"`
	Steps    []StepLedger   `json:"steps"`
	Sinks    []SinkLedger   `json:"sinks"`
	Dead     *DeadStatus    `json:"dead_letters,omitempty"` // nil: it does not run
	// StaleLookups are lookup files that changed since the pipeline's checkpoints began: it goes on with their earlier content.
	StaleLookups []string `json:"stale_lookups,omitempty"`
	// Balanced tells that the ledger's sums match (see docs/ledger.md); Imbalance says where they do not.
	Balanced  bool   `json:"balanced"`
	Imbalance string `json:"imbalance,omitempty"`
}

// Progress tells how far something long is.
type Progress struct {
	What  string `json:"what"`
	Unit  string `json:"unit"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total,omitempty"` // 0: not known
}

// String is for people: "restoring a savepoint: 1200 of 4000 entries (30 %)".
func (p *Progress) String() string {
	if p.Total == 0 {
		return fmt.Sprintf("%s: %d %s", p.What, p.Done, p.Unit)
	}
	return fmt.Sprintf("%s: %d of %d %s (%.0f %%)", p.What, p.Done, p.Total, p.Unit, 100*float64(min(p.Done, p.Total))/float64(p.Total))
}

// CheckpointStatus is the state of a pipeline's checkpoints.
type CheckpointStatus struct {
	ID         uint64  `json:"id"`
	Position   uint64  `json:"position"`
	AgeSeconds float64 `json:"age_seconds"`
	Bytes      int64   `json:"bytes"`
	DurationMs float64 `json:"duration_ms"`
	Completed  uint64  `json:"completed_total"`
	Failed     uint64  `json:"failed_total"`
	InARow     uint64  `json:"failed_in_a_row"`
	LastError  string  `json:"last_error,omitempty"`
}

// CentralStatus is how far a pipeline's checkpoints are kept off this device.
type CentralStatus struct {
	Serial     uint64 `json:"serial"` // of the newest upload; 0: none
	Checkpoint uint64 `json:"checkpoint"`
	Position   uint64 `json:"position"`
	// Created is when that checkpoint was made, by this device's clock.
	Created *time.Time `json:"created,omitempty"`
	// AgeSeconds is how old the newest state in the store is: without shipped records, what would be lost if the device died now. -1: not known.
	AgeSeconds float64 `json:"age_seconds"`
	// LossSeconds is the recovery point: how old the oldest record is that neither the state in the store nor what was shipped behind it has. -1: not known.
	LossSeconds float64 `json:"loss_seconds"`
	// Shipped is the last record that was shipped behind that state; 0: none (central.ship_journal).
	Shipped    uint64 `json:"shipped,omitempty"`
	Pending    uint64 `json:"pending_bytes"` // of the upload under way
	Base       bool   `json:"base"`          // it holds all of the state
	Sent       uint64 `json:"sent_bytes_total"`
	Uploads    uint64 `json:"uploads_total"`
	BaseBytes  uint64 `json:"base_bytes"`
	DeltaBytes uint64 `json:"delta_bytes"`
	Fenced     bool   `json:"fenced,omitempty"` // another device writes for this gateway
	Error      string `json:"error,omitempty"`
}

// StateStatus is what the backend pebble holds, in bytes.
type StateStatus struct {
	Disk    uint64 `json:"disk_bytes"`
	Written uint64 `json:"written_bytes_total"` // to the page cache: what is removed soon never reaches the flash
	Memory  uint64 `json:"memory_bytes"`        // memtables and block cache
	Waits   string `json:"waits,omitempty"`     // why a write waits: the disk is full or read-only
}

// TaskStatus is how far a task of a pipeline is, and what of it runs in instances.
type TaskStatus struct {
	Name     string         `json:"name"`
	Position uint64         `json:"position"`
	Regions  []RegionStatus `json:"regions,omitempty"`
}

// RegionStatus is a set of keyed steps that run in instances. Rows is what each instance has taken since the pipeline started: uneven
// numbers are skewed keys.
type RegionStatus struct {
	Steps []string `json:"steps"`
	Rows  []uint64 `json:"rows"`
}

// SourceLedger: received + split = processed + dead, and processed = rows + tombstones. Copies were left out before the journal: SessionStatus.
type SourceLedger struct {
	Name       string `json:"name"`
	Received   uint64 `json:"received"` // messages
	Split      uint64 `json:"split"`    // records in them beyond the first of each
	Processed  uint64 `json:"processed"`
	Rows       uint64 `json:"rows"`
	Tombstones uint64 `json:"tombstones"`
	Dead       uint64 `json:"dead"`
	Stubs      uint64 `json:"stubs"`
}

// StepLedger counts what a step took, gave and refused.
type StepLedger struct {
	UID     string `json:"uid"`
	In      uint64 `json:"in"`
	Emitted uint64 `json:"emitted"`
	Late    uint64 `json:"late"`
	Dropped uint64 `json:"dropped"`
	Dead    uint64 `json:"dead"`
}

// SinkLedger: emitted = confirmed + pending + dropped + rejected. Dropped and rejected ones are told upstream as gaps.
type SinkLedger struct {
	UID         string `json:"uid"`
	Stream      string `json:"stream"`
	Commit      string `json:"commit"`
	Guarantee   string `json:"guarantee"`
	Generation  uint64 `json:"generation"`
	Incarnation string `json:"incarnation"`
	Emitted     uint64 `json:"emitted"`
	Confirmed   uint64 `json:"confirmed"`
	Pending     uint64 `json:"pending"`
	Rejected    uint64 `json:"rejected"`
	Dropped     uint64 `json:"dropped"`
	Lost        uint64 `json:"lost_upstream"` // of the confirmed: upstream held them once and holds them no more; since the pipeline started
	Retries     uint64 `json:"retries"`
	Divergences uint64 `json:"divergences"`           // results made again that differ from what upstream holds; since the agent started
	DivergedAt  uint64 `json:"diverged_at,omitempty"` // sequence at which the latest was found: it is this result or one before it
	// Expired and Overflowed are the causes of Dropped: ttl, and on_full: drop_oldest; counted when they are given up, which is before upstream has their gap.
	Expired    uint64 `json:"expired"`
	Overflowed uint64 `json:"overflowed"`
	// Bytes of payload wait, of BytesMax; DiskBytes is what the sink takes of the log. Full: the sink holds the pipeline up.
	Bytes     int64  `json:"bytes"`
	BytesMax  int64  `json:"bytes_max"`
	DiskBytes int64  `json:"disk_bytes"`
	Full      bool   `json:"full,omitempty"`
	Link      string `json:"link,omitempty"`
	// Held says what the link makes the sink wait for.
	Held string `json:"held,omitempty"`
	// Limits are what upstream announced: its receive maximum, packet size and the like.
	Limits string `json:"limits,omitempty"`
	State  string `json:"state"`
	Error  string `json:"error,omitempty"`
}

// DeadStatus is what became of the pipeline's dead letters: kept = held + evicted + expired + requeued.
type DeadStatus struct {
	Kept     uint64 `json:"kept"`
	Held     uint64 `json:"held"`
	Evicted  uint64 `json:"evicted"`  // made room for newer ones
	Expired  uint64 `json:"expired"`  // were older than max_age
	Requeued uint64 `json:"requeued"` // are in the journal again
	Bytes    int64  `json:"bytes"`
	BytesMax int64  `json:"bytes_max"`
	OldestMs int64  `json:"oldest_ms,omitempty"`
	// Sink is where they go as well; nil: nowhere.
	Sink *DeadSinkStatus `json:"sink,omitempty"`
}

// DeadSinkStatus is the stream of dead letters upstream: kept = before + delivered + pending + dropped + rejected.
type DeadSinkStatus struct {
	Stream    string `json:"stream"`
	Kept      uint64 `json:"kept"`
	Before    uint64 `json:"before"` // upstream held them when the pipeline started
	Delivered uint64 `json:"delivered"`
	Pending   uint64 `json:"pending"`
	Dropped   uint64 `json:"dropped"` // made room before they were sent
	Rejected  uint64 `json:"rejected"`
	State     string `json:"state"`
	Error     string `json:"error,omitempty"`
}

// CheckpointInfo is one retained checkpoint.
type CheckpointInfo struct {
	ID       uint64    `json:"id"`
	Position uint64    `json:"position"`
	Time     time.Time `json:"time"`
	Bytes    int64     `json:"bytes"`
	Kind     string    `json:"kind"`
}
