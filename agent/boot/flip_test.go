package boot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// flips has do called with one bit changed of each byte of a file, and leaves the file as it was.
func (g *gateway) flips(name string, do func(bit int)) {
	g.Helper()
	b, err := os.ReadFile(name)
	g.must(err)
	for at := range b {
		bit := 8*at + at%8
		b[bit/8] ^= 1 << (bit % 8)
		g.must(os.WriteFile(name, b, 0o644))
		do(bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
	g.must(os.WriteFile(name, b, 0o644))
}

// TestABitOfWhatTheHelperKnows, in each byte: of a slot, and of the floor, in either of their two files. Nothing is taken for true that is not, and nothing is forgotten.
func TestABitOfWhatTheHelperKnows(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	g.must(g.p.raiseFloor(6))
	want, err := g.p.about(upgrade.SlotA)
	g.must(err)
	for _, name := range []string{aboutFile, aboutCopy} {
		g.flips(filepath.Join(g.p.slot(upgrade.SlotA), name), func(bit int) {
			got, err := g.p.about(upgrade.SlotA)
			if got.Sum = want.Sum; err != nil || got != want {
				t.Errorf("bit %d of %s: %+v, %v", bit, name, got, err)
			}
		})
	}
	for _, name := range []string{floorFile, floorCopy} {
		g.flips(filepath.Join(g.p.Dir, name), func(bit int) {
			if n, err := g.p.floor(); n != 6 || err != nil {
				t.Errorf("bit %d of %s: %d, %v", bit, name, n, err)
			}
		})
	}
}

// TestADamagedAbout: the program of a slot runs on, though one of the files that tell of it is damaged. It had been taken for another package's, and both slots were emptied.
func TestADamagedAbout(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	name := filepath.Join(g.p.slot(upgrade.SlotA), aboutFile)
	b, err := os.ReadFile(name)
	g.must(err)
	b[len(b)-8] ^= 1 // in the digest of the package's program
	g.must(os.WriteFile(name, b, 0o644))
	for range 2 {
		if got := g.start(); got != "one" {
			t.Errorf("%s runs: %q", got, g.said)
		}
		g.reboot()
	}
	if _, err := g.p.aboutIn(name); !errors.Is(err, disk.ErrSum) {
		t.Errorf("%v", err)
	}
}
