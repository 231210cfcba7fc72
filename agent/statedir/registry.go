package statedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// Registry maps pipeline names to the UUIDs that name their state: a pipeline that was deleted and made anew under the same
// name gets a new UUID and never inherits state. File state_dir/pipelines.json, replaced atomically.
type Registry struct {
	mu      sync.Mutex // guards Pipelines and Retired: the applier changes them while others look
	fs      disk.FS
	renamed bool // the gateway's name is not written yet
	file    string
	Gateway string `json:"gateway"`
	// Journal is the identity of the journal: positions mean the same as long as it is the same.
	Journal   string            `json:"journal,omitempty"`
	Pipelines map[string]string `json:"pipelines"`
	// Retired are pipelines that left the config; their state stays until `weir pipeline forget`.
	Retired []RetiredPipeline `json:"retired,omitempty"`
}

// RetiredPipeline is a pipeline that is not in the config any more.
type RetiredPipeline struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// NewRegistry is an empty one for a state_dir. Nothing is written yet.
func NewRegistry(fsys disk.FS, stateDir string) *Registry {
	return &Registry{fs: fsys, file: filepath.Join(stateDir, "pipelines.json"), Pipelines: map[string]string{}}
}

// Path is its file.
func (r *Registry) Path() string { return r.file }

// OpenRegistry reads the registry of a state_dir; a missing file is an empty registry, a damaged one is an error: guessing
// would give pipelines a new identity.
func OpenRegistry(fsys disk.FS, stateDir string) (*Registry, error) {
	r := NewRegistry(fsys, stateDir)
	b, err := disk.ReadFile(fsys, r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	err = record.Decode(b, record.Form{What: "registry " + r.file, Reads: 1}, r)
	if record.IsNewer(err) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read registry %s: %w; the file names the pipelines' state directories under pipelines/: restore it from a backup, or move it away to start every pipeline with empty state", r.file, err)
	}
	if r.Pipelines == nil {
		r.Pipelines = map[string]string{}
	}
	return r, nil
}

// UUID gives the identity of a pipeline's state, "" when the name is not known.
func (r *Registry) UUID(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Pipelines[name]
}

// Holds tells whether a pipeline of the config has this identity.
func (r *Registry) Holds(id snapshot.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.Pipelines {
		if known, err := ParseUUID(text); err == nil && known == id {
			return true
		}
	}
	return false
}

// CheckIDs refuses a registry in which the identity of a pipeline is none.
func (r *Registry) CheckIDs() error {
	for name, id := range r.Pipelines {
		if _, err := ParseUUID(id); err != nil {
			return fmt.Errorf("read registry %s: pipeline %s: %w", r.file, name, err)
		}
	}
	return nil
}

// SetGateway takes the gateway's name; Adopt writes it.
func (r *Registry) SetGateway(name string) {
	r.renamed = r.renamed || r.Gateway != name
	r.Gateway = name
}

// SetJournal keeps the journal's identity; a journal that is new, or has none yet, gets one. Durable on return.
func (r *Registry) SetJournal(fresh bool) error {
	if r.Journal != "" && !fresh {
		return nil
	}
	r.Journal = newUUID()
	return r.Save()
}

// Adopt gives each name of the config its UUID, retires names that are gone, and writes the file when something changed. Durable on return.
func (r *Registry) Adopt(names []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.renamed
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
		if _, ok := r.Pipelines[n]; !ok {
			r.Pipelines[n] = newUUID()
			changed = true
		}
	}
	for n, id := range r.Pipelines {
		if !wanted[n] {
			r.Retired = append(r.Retired, RetiredPipeline{Name: n, UUID: id})
			delete(r.Pipelines, n)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return r.Save()
}

func (r *Registry) Save() error {
	if err := record.Write(r.fs, r.file, r); err != nil {
		return fmt.Errorf("write registry: %w", err)
	}
	return nil
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
