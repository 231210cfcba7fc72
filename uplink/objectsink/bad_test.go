package objectsink

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadDirectories: each is named, at the rate of kinds of failure, and all is written once it is mended.
func TestBadDirectories(t *testing.T) {
	dial := func(t *testing.T, path string) uplink.Endpoint {
		s, err := New(Config{Directory: path, Compression: "none"})
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
	file, small := filepath.Join(dir, "file"), filepath.Join(dir, "small")
	var drain func() error
	bad := []uplinktest.Bad{
		{Name: "a file", Want: []string{file, "not a directory"},
			Dial: func(t *testing.T) uplink.Endpoint {
				must(t, os.WriteFile(file, nil, 0o644))
				return dial(t, file)
			},
			Heal: func(t *testing.T) { must(t, os.Remove(file)) }},
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
				return dial(t, filepath.Join(small, "archive"))
			},
			Heal: func(t *testing.T) { must(t, drain()) }},
	}
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
