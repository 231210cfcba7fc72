package rig

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// PowerCut makes power cuts of an agent's kills. kill -9 leaves everything in the page cache, where the next process finds it; a power
// cut does not. The agent under test, built with -tags weirfault, records what it does to its files; after a kill Strike takes back what
// was not synced. What the file sink writes comes through: it opens its file itself.
type PowerCut struct {
	dir string
	// Taken sums up what the power cuts took.
	Taken disktest.Taken
	cuts  int
}

// NewPowerCut keeps its records in dir, which must lie on the same device as the agent's state.
func NewPowerCut(dir string) (*PowerCut, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of records: %w", err)
	}
	return &PowerCut{dir: dir}, nil
}

// Env makes a child record. Each of its syncs takes syncDelay longer, so that a kill finds something that was not synced.
func (p *PowerCut) Env(syncDelay time.Duration) []string {
	return []string{"WEIR_POWERCUT=" + p.dir, "WEIR_SYNC_DELAY=" + syncDelay.String()}
}

// Strike cuts the power of a child that was killed; it must not have been started again. random decides what comes through of
// what was not synced; nil: nothing.
func (p *PowerCut) Strike(random *rand.Rand) (disktest.Taken, error) {
	taken, err := disktest.Outage(p.dir, random)
	p.Taken.Add(taken)
	p.cuts++
	return taken, err
}

// Cuts is how often Strike struck.
func (p *PowerCut) Cuts() int { return p.cuts }

// Unsynced is how many bytes the agent has written and not synced in the files of a directory. It may be asked while the agent runs.
func (p *PowerCut) Unsynced(elems ...string) (int64, error) {
	return disktest.Unsynced(p.dir, filepath.Join(elems...))
}
