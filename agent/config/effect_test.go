package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWarned: what works, though not as one may think, is accepted with a warning that has a place, what was found, and what may have been meant.
func TestWarned(t *testing.T) {
	for _, file := range glob(t, "testdata/warned/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(name+".yaml", data)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.Warnings {
				if w.Pos.Line == 0 {
					t.Errorf("no place: %s", w)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", c.Warnings.Error()+"\n")
		})
	}
}
