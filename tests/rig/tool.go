package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNoTool: a server that the tests run against could not be built.
var ErrNoTool = errors.New("tool cannot be built")

// Tool builds a program of the tools module (tests/tools/go.mod: the servers that sinks are tested against) and gives its path in
// the build cache. The module proxy is asked the first time only.
func Tool(name string) (string, error) { return toolOf(".", name) }

// InfluxDB builds influxd 1.8, the last that is Go alone; it has the write API of version 2. Its dependencies are of its own time, so it has
// a module of its own.
func InfluxDB() (string, error) { return toolOf("influxd", "influxd") }

func toolOf(module, name string) (string, error) {
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "-C", filepath.Join(filepath.Dir(here), "..", "tools", module), "tool", "-n", name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOOS=", "GOARCH=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w: %.500s", ErrNoTool, name, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
