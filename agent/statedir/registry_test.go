package statedir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

func TestRegistryKeepsRetiresAndRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	open := func() *Registry {
		t.Helper()
		r, err := OpenRegistry(disk.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	if err := r.Adopt([]string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	first := r.Pipelines["a"]
	r = open()
	if err := r.Adopt([]string{"a"}); err != nil || r.Pipelines["a"] != first || len(r.Retired) != 1 || r.Retired[0].Name != "b" {
		t.Fatalf("%v %+v", err, r)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipelines.json"), []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(disk.OS, dir); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("damaged registry: %v", err)
	}
}
