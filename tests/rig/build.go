package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// weirPackage is the agent's program.
const weirPackage = "github.com/weirstream/weir/agent/cmd/weir"

// RunWithWeir is the body of a TestMain whose tests run the agent as a program: it builds weir with arguments of go build into a directory
// of its own, puts the path into weir, runs the tests, and removes it. The exit code is the result. A package that uses it imports the agent, so that
// a change there makes its cached results stale.
func RunWithWeir(m *testing.M, weir *string, args ...string) int {
	return runWith(m, weir, func(file string) error { return BuildWeir(file, args...) })
}

// RunWithRelease is RunWithWeir with the program as it goes to gateways (make build).
func RunWithRelease(m *testing.M, weir *string) int {
	return runWith(m, weir, func(file string) error { return MakeWeir("build", file) })
}

func runWith(m *testing.M, weir *string, build func(file string) error) int {
	dir, err := os.MkdirTemp("", "weir-under-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*weir = filepath.Join(dir, "weir")
	if err := build(*weir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// BuildWeir builds the agent into a file; args are for go build, such as -tags.
func BuildWeir(file string, args ...string) error { return buildProgram(weirPackage, file, args) }

// BuildBoot builds weir-boot into a file.
func BuildBoot(file string, args ...string) error {
	return buildProgram(weirPackage+"-boot", file, args)
}

func buildProgram(program, file string, args []string) error {
	cmd := exec.Command("go", append(append([]string{"build"}, args...), "-o", file, program)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// MakeWeir builds the agent into a file as it goes to gateways, by a target of the Makefile (build, small); variables are further ones for make, such as TAGS=a,b.
func MakeWeir(target, file string, variables ...string) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	cmd := exec.Command("make", append([]string{"-s", "-C", root, target, "BIN=" + file, "OUT=" + file}, variables...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make weir: %w\n%s", err, out)
	}
	return nil
}
