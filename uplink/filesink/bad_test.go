package filesink

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadPlaces: each is named, at the rate of kinds of failure, and all is written once it is mended.
func TestBadPlaces(t *testing.T) {
	dial := func(t *testing.T, path string) uplink.Endpoint {
		s, err := New(Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	below, folder, foreign, small := filepath.Join(dir, "below"), filepath.Join(dir, "folder"), filepath.Join(dir, "foreign"), filepath.Join(dir, "small")
	var drain func() error
	bad := []uplinktest.Bad{
		{Name: "below a file", Want: []string{below, "not a directory"},
			Dial: func(t *testing.T) uplink.Endpoint {
				must(t, os.WriteFile(below, nil, 0o644))
				return dial(t, filepath.Join(below, "out.jsonl"))
			},
			Heal: func(t *testing.T) { must(t, os.Remove(below)); must(t, os.Mkdir(below, 0o755)) }},
		{Name: "a directory", Want: []string{folder, "is a directory"},
			Dial: func(t *testing.T) uplink.Endpoint { must(t, os.Mkdir(folder, 0o755)); return dial(t, folder) },
			Heal: func(t *testing.T) { must(t, os.Remove(folder)) }},
		{Name: "foreign file", Want: []string{foreign, "give the sink another path"},
			Dial: func(t *testing.T) uplink.Endpoint {
				must(t, os.WriteFile(foreign, []byte("dear diary\n"), 0o644))
				return dial(t, foreign)
			},
			Heal: func(t *testing.T) { must(t, os.Rename(foreign, foreign+".old")) }},
		{Name: "full disk", Want: []string{small, "no space left on device"},
			Dial: func(t *testing.T) uplink.Endpoint {
				must(t, os.Mkdir(small, 0o755))
				d, done, err := rig.SmallDisk(small, 64<<10)
				if errors.Is(err, rig.ErrNoMount) {
					t.Skip("NOT TESTED: ", err)
				}
				must(t, err)
				t.Cleanup(done)
				drain = d
				return dial(t, filepath.Join(small, "out.jsonl"))
			},
			Heal: func(t *testing.T) { must(t, drain()) }},
	}
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
