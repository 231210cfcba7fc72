package config

import (
	"strings"
	"testing"
)

// TestBackendOfAnotherBuild: a weir without Pebble refuses the backend by name, at its place.
func TestBackendOfAnotherBuild(t *testing.T) {
	defer func(built bool) { pebbleBuilt = built }(pebbleBuilt)
	file := "brokers: {b: {url: \"tcp://127.0.0.1:1883\", client_id: c}}\nsources: {a: {mqtt: {broker: b, topic: a}, decode: json}}\n" +
		"pipelines:\n  p:\n    state: {backend: pebble}\n    steps: [{uid: f, from: a, filter: \"x > 1\"}]\n    sinks: [{uid: o, from: f, file: {path: o.jsonl}}]\n"
	pebbleBuilt = true
	c, err := Parse("p.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Pipelines[0].State; s.Backend != BackendPebble || s.Memory != 32<<20 {
		t.Errorf("state is %+v", s)
	}
	pebbleBuilt = false
	if _, err = Parse("p.yaml", []byte(file)); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:5:22: ") || !strings.Contains(err.Error(), "nopebble") {
		t.Errorf("refused with %v", err)
	}
}
