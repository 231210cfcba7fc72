package rauc

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/upgradetest"
)

// conforms runs the suite against RAUC, with a mistake planted in the backend.
func conforms(t *testing.T, planted fault) error {
	needs(t)
	dir, count := t.TempDir(), 0
	var last *machine
	done := func() {
		if last != nil {
			last.close()
			os.RemoveAll(last.dir)
		}
	}
	defer done()
	return upgradetest.Check(t.Context(), func() (*upgradetest.Machine, error) {
		done()
		count++
		m, err := newMachine(filepath.Join(dir, strconv.Itoa(count)))
		if err != nil {
			return nil, err
		}
		last, m.plant = m, planted
		out := &upgradetest.Machine{Backend: taken{m.backend()}, Tries: triesOfLoader, Runs: m.runs, Artifact: func(kind string) []byte {
			b, err := shop.bundle(kind, "right", "gateway")
			if err != nil {
				t.Error(err)
			}
			return b
		}}
		out.Boot = func() (upgrade.Slot, error) {
			s, err := m.boot()
			out.Backend = taken{m.backend()}
			return s, err
		}
		return out, nil
	})
}

func TestConforms(t *testing.T) {
	if err := conforms(t, ""); err != nil {
		t.Error(err)
	}
}
