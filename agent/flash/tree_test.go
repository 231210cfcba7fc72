package flash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree lays a fixture out: PATH: CONTENT with \n for a newline, or LINK -> TARGET.
func tree(t testing.TB, name string) System {
	t.Helper()
	root := t.TempDir()
	b, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "#") {
			continue
		}
		if link, target, ok := strings.Cut(l, " -> "); ok {
			put(t, filepath.Join(root, link), func(path string) error { return os.Symlink(target, path) })
			continue
		}
		// The first ": " ends the path: names such as 179:3 and mmc2:0001 have none.
		path, content, ok := strings.Cut(l, ": ")
		if !ok {
			t.Fatalf("%s: %q", name, l)
		}
		content = strings.ReplaceAll(strings.ReplaceAll(content, `\n`, "\n"), `\\`, `\`)
		put(t, filepath.Join(root, path), func(path string) error { return os.WriteFile(path, []byte(content), 0o600) })
	}
	return System{Sys: filepath.Join(root, "sys"), Proc: filepath.Join(root, "proc"), Rdev: func(path string) (uint32, uint32, bool) {
		if path == "/dev/vda2" {
			return 254, 2, true
		}
		return 0, 0, false
	}}
}

func put(t testing.TB, path string, write func(string) error) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := write(path); err != nil {
		t.Fatal(err)
	}
}

// rewrite replaces a file of a fixture.
func (s System) rewrite(t testing.TB, content string, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.Sys), filepath.Join(elem...)), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
