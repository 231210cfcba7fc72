package known

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// weir is the program under test, built once.
var weir string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-known-build-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	weir = filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-o", weir, "github.com/weirstream/weir/agent/cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build weir: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
