package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -rewrite writes it anew):\n%s", file, diff)
	}
}

// TestBadInput: each kind of mistake is refused with file, line, column, what was found, what is allowed, and the nearest
// right name.
func TestBadInput(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(name+".yaml", data)
			if err == nil {
				t.Fatal("accepted")
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, name+".yaml:") {
					t.Errorf("no place: %q", line)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

func glob(tb testing.TB, pattern string) []string {
	tb.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		tb.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}
