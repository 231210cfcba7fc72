package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
)

// TestPathsOfSavepoints: a name that cannot be, and a directory that is none, are told as what they are.
func TestPathsOfSavepoints(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "there"+restore.SavepointSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &attempt{spec: &config.Pipeline{}}
	a.spec.Name.Value = "p"
	for _, c := range []struct{ dir, name, want string }{
		{dir, "a", ""}, {dir, "", ""}, {dir, "überlauf 1", ""},
		{dir, "there", "exists"},
		{file, "a", "not a directory"},
		{dir, strings.Repeat("n", 300), "too long"},
		{dir, "../a", "no path"}, {dir, ".a", "no leading dot"}, {dir, "a\x1b[31mb", "can be printed"}, {dir, "a\nb", "can be printed"},
		{"relative", "a", "absolute"},
	} {
		path, err := a.savepointPath(api.SavepointOptions{Dir: c.dir, Name: c.name, Pipeline: "p"})
		if c.want == "" {
			if err != nil || filepath.Dir(path) != dir {
				t.Errorf("%q: %q, %v", c.name, path, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || c.want != "exists" && strings.Contains(err.Error(), "exists") {
			t.Errorf("%q in %s: %q, %v, want %q", c.name, c.dir, path, err, c.want)
		}
	}
}
