package filesink

import (
	"os"
	"path/filepath"
	"testing"

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
	dir := t.TempDir()
	below, folder, foreign, small := filepath.Join(dir, "below"), filepath.Join(dir, "folder"), filepath.Join(dir, "foreign"), filepath.Join(dir, "small")
	bad := []uplinktest.Bad{
		{Name: "below a file", Want: []string{below, "not a directory"},
			Dial: func(t *testing.T) uplink.Endpoint {
				uplinktest.Must(t, os.WriteFile(below, nil, 0o644))
				return dial(t, filepath.Join(below, "out.jsonl"))
			},
			Heal: func(t *testing.T) { uplinktest.Must(t, os.Remove(below)); uplinktest.Must(t, os.Mkdir(below, 0o755)) }},
		{Name: "a directory", Want: []string{folder, "is a directory"},
			Dial: func(t *testing.T) uplink.Endpoint {
				uplinktest.Must(t, os.Mkdir(folder, 0o755))
				return dial(t, folder)
			},
			Heal: func(t *testing.T) { uplinktest.Must(t, os.Remove(folder)) }},
		{Name: "foreign file", Want: []string{foreign, "give the sink another path"},
			Dial: func(t *testing.T) uplink.Endpoint {
				uplinktest.Must(t, os.WriteFile(foreign, []byte("dear diary\n"), 0o644))
				return dial(t, foreign)
			},
			Heal: func(t *testing.T) { uplinktest.Must(t, os.Rename(foreign, foreign+".old")) }},
		uplinktest.OnFullDisk(small, 64<<10, func(t *testing.T) uplink.Endpoint { return dial(t, filepath.Join(small, "out.jsonl")) }, small, "no space left on device"),
	}
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
