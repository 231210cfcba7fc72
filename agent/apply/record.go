// Package apply decides how a changed config comes into force: what differs between two configs, which state an apply is in and what comes next,
// which config a start of the agent runs. It keeps the record of the apply and the two configs in state_dir/apply; the agent does the rest.
// DESIGN.md has the states and what a crash leads to.
package apply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// State of an apply. Committed and RolledBack are at rest.
type State string

// The states.
const (
	None       State = "" // nothing was ever applied
	Saving     State = "saving"
	Probation  State = "probation"
	Committed  State = "committed"
	Returning  State = "returning"
	Restoring  State = "restoring"
	RolledBack State = "rolled back"
)

// Kind is what becomes of a pipeline.
type Kind string

// The kinds.
const (
	Changed Kind = "changed"
	Added   Kind = "new"
	Removed Kind = "removed"
)

// Change is a pipeline, or a region of one, that an apply touches.
type Change struct {
	Name string `json:"name"`
	UUID string `json:"uuid,omitempty"`
	Kind Kind   `json:"kind"`
	Plan string `json:"plan,omitempty"` // hash of the old plan, hex
	// Savepoint is S: absolute; "": not made yet.
	Savepoint  string `json:"savepoint,omitempty"`
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Position   uint64 `json:"position,omitempty"`
	Ends       []End  `json:"ends,omitempty"` // of the outbox at S
}

// End is the last number that a stream had given out.
type End struct {
	UID string `json:"uid"`
	Seq uint64 `json:"seq"`
}

// Record is all that a restart needs to know.
type Record struct {
	Number uint64 `json:"number"` // of the apply
	State  State  `json:"state"`
	Old    string `json:"old"`
	New    string `json:"new"`
	// File is the digest of the config file when the apply began: as long as it is that, the operator has not changed it.
	File         string   `json:"file"`
	Refused      string   `json:"refused,omitempty"` // digest of the config that was gone back from
	Why          string   `json:"why,omitempty"`     // it was
	Tries        int      `json:"tries,omitempty"`   // restarts of the agent until it is given up
	AllowDropped bool     `json:"allow_dropped_state,omitempty"`
	Changes      []Change `json:"changes,omitempty"`
}

// InForce is the digest of the config that runs.
func (r *Record) InForce() string {
	if r.State == Probation || r.State == Committed {
		return r.New
	}
	return r.Old
}

// Resting tells that no apply is under way.
func (r *Record) Resting() bool {
	return r.State == None || r.State == Committed || r.State == RolledBack
}

// ErrDamaged is the error of a record or a kept config that is not what was written.
var ErrDamaged = errors.New("damaged")

const (
	recordFile = "record"
	format     = 1 // of record and kept configs; that which has none has it
)

// Store is the directory that keeps record and configs.
type Store struct {
	FS  disk.FS
	Dir string
}

// Load reads the record; a missing one is the zero Record.
func (s Store) Load() (r Record, err error) {
	if err := s.read(recordFile, &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("read the record of the last apply: %w", err)
	}
	return r, nil
}

// Save replaces the record. Durable on return.
func (s Store) Save(r *Record) error {
	if err := s.write(recordFile, r); err != nil {
		return fmt.Errorf("record the apply: %w", err)
	}
	return nil
}

func (s Store) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := s.FS.MkdirAll(s.Dir); err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	return disk.WriteFileAtomic(s.FS, filepath.Join(s.Dir, name), fmt.Appendf(b, "\n%x\n", sum))
}

func (s Store) read(name string, into any) error {
	path := filepath.Join(s.Dir, name)
	b, err := disk.ReadFile(s.FS, path)
	if err != nil {
		return err
	}
	text, rest, _ := bytes.Cut(b, []byte("\n"))
	sum := sha256.Sum256(text)
	if string(rest) != hex.EncodeToString(sum[:])+"\n" {
		return fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	if err := record.Decode(text, record.Form{What: path, Reads: format}, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
