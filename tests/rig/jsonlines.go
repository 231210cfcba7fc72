package rig

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// JSONLines reads a file that has a value on each line.
func JSONLines[T any](t testing.TB, file string) (list []T) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: line %d, %.80q: %v", file, len(list)+1, line, err)
		}
		list = append(list, v)
	}
	return list
}
