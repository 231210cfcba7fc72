package snapshot

import (
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// listing is a file system in which something happens just before the next List.
type listing struct {
	disk.FS
	before func()
}

func (l *listing) List(dir string) ([]string, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.FS.List(dir)
}

// TestPruneLeavesABaseThatWasJustMerged: a merge that ends while Prune cleans up has its base kept, though no manifest names it yet. The next
// checkpoints stand on it.
func TestPruneLeavesABaseThatWasJustMerged(t *testing.T) {
	for _, planted := range []bool{false, true} {
		fsys := &listing{FS: disk.OS}
		s, err := newLogStore(t.Context(), LogOptions{FS: fsys, Dir: t.TempDir(), Pipeline: testPipeline, Logger: discard()}, newMemLog(), chunkBytes)
		if err != nil {
			t.Fatal(err)
		}
		s.bugs.askedEarly = planted
		p, all := threeCheckpoints(t, s)
		var base BaseRef
		fsys.before = func() {
			if base, err = s.Rebase(t.Context(), all[2]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Prune(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		m, err := p.checkpoint(t.Context(), s, all[2], 4, 2, base)
		if err == nil {
			err = s.Verify(t.Context(), m)
		}
		if found := err != nil; found != planted || base.Serial == 0 {
			t.Errorf("planted %v, base %d: %v", planted, base.Serial, err)
		}
	}
}
