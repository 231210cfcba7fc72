package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingIsHandedOverWhereNothingRan: on the state_dir of no agent neither command makes one, and both name it.
func TestNothingIsHandedOverWhereNothingRan(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	cfg := b.parse()
	dir := cfg.StateDir.Value
	for name, do := range map[string]func() error{
		"retake": func() error { _, err := Retake(t.Context(), cfg); return err },
		"export": func() error {
			_, err := ExportHandover(t.Context(), cfg, b.options, filepath.Join(t.TempDir(), "out"))
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s says %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "incarnation")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has made an incarnation: %v", name, err)
		}
	}
}
