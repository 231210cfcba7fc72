package objectsink

import (
	"os"
	"path/filepath"
	"testing"

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
	dir := t.TempDir()
	file, small := filepath.Join(dir, "file"), filepath.Join(dir, "small")
	bad := []uplinktest.Bad{
		{Name: "a file", Want: []string{file, "not a directory"},
			Dial: func(t *testing.T) uplink.Endpoint {
				uplinktest.Must(t, os.WriteFile(file, nil, 0o644))
				return dial(t, file)
			},
			Heal: func(t *testing.T) { uplinktest.Must(t, os.Remove(file)) }},
		uplinktest.OnFullDisk(small, 64<<10, func(t *testing.T) uplink.Endpoint { return dial(t, filepath.Join(small, "archive")) }, small, "no space left on device"),
	}
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
