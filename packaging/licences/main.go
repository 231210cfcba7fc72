// Command licences writes the licence of every Go module that is linked into a program, and of Go itself, as they lie in the module cache. A module without one is an error:
// what is given on has to carry the licences of its parts.
//
//	licences PROGRAM >licences
package main

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: licences PROGRAM")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	err := write(out, os.Args[1])
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write goes through the modules in the order of their names, as the program has them.
func write(out io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read build information: %w", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	if err := licence(out, "Go, "+info.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return err
	}
	for _, m := range info.Deps {
		dir, err := dirOf(m)
		if err != nil {
			return err
		}
		if dir == "" {
			continue // of this repository
		}
		if err := licence(out, m.Path+" "+m.Version, dir); err != nil {
			return err
		}
	}
	return nil
}

// dirOf finds a module in the cache; "" for one that is replaced by a directory of the repository.
func dirOf(m *debug.Module) (string, error) {
	if r := m.Replace; r != nil {
		if strings.HasPrefix(r.Path, "./") {
			return "", nil
		}
		m = r
	}
	cmd := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version)
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", m.Path, m.Version, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(b, &found); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", m.Path, err)
	}
	return found.Dir, nil
}

// errNone: a module has no licence.
var errNone = errors.New("no licence found")

func licence(out io.Writer, title, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", title, err)
	}
	var names []string
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if !e.IsDir() && slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, func(p string) bool { return strings.HasPrefix(upper, p) }) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: %w in %s", title, errNone, dir)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", title, err)
		}
		fmt.Fprintf(out, "==== %s: %s ====\n\n%s\n\n", title, name, bytes.TrimSpace(b))
	}
	return nil
}
