// Package docs holds the documentation to its word: links lead somewhere, configs are accepted, commands run and print what the
// page says, every alarm line is explained, the units are valid.
package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/tests/rig"
)

const root = "../.."

var weir string // the agent, built by TestMain

func TestMain(m *testing.M) { os.Exit(rig.RunWithWeir(m, &weir)) }

// pages are all Markdown files of the repository.
func pages(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "run" || d.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	return files
}

// block is a fenced block: its info string and text.
type block struct {
	info, text string
	line       int
}

func blocks(t *testing.T, page string) (list []block) {
	t.Helper()
	var b *block
	for i, line := range strings.Split(read(t, page), "\n") {
		switch info, fence := strings.CutPrefix(line, "```"); {
		case fence && b == nil:
			b = &block{info: info, line: i + 1}
		case fence:
			list = append(list, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		}
	}
	if b != nil {
		t.Errorf("%s:%d: block without end", page, b.line)
	}
	return list
}

// run runs a block in a shell that knows weir, and gives what it printed.
func (b *block) run(t *testing.T, where, dir string) []byte {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", b.text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(weir)+":"+os.Getenv("PATH"))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	printed, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s%s", where, err, printed, problems.Bytes())
	}
	return printed
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchor is GitHub's name of a heading.
func anchor(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
				continue
			}
			if section == "" {
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(read(t, file), -1) {
				anchors = append(anchors, anchor(h[1]))
			}
			if !slices.Contains(anchors, section) {
				t.Errorf("%s: %s has no heading for %s", page, file, section)
			}
		}
	}
}

// TestIndexListsEveryPage: who looks for something begins at docs/README.md.
func TestIndexListsEveryPage(t *testing.T) {
	index := read(t, root+"/docs/README.md")
	entries, err := os.ReadDir(root + "/docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".md") && name != "README.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestExamplesRun: a block `yaml NAME` is a whole config and is saved as NAME; a block `shell` runs; a block `output` behind it is the
// beginning of what it printed.
func TestExamplesRun(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		dir := t.TempDir()
		for _, name := range []string{"tests", "configs"} {
			target, err := filepath.Abs(filepath.Join(root, name))
			if err == nil {
				err = os.Symlink(target, filepath.Join(dir, name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var printed []byte
		for _, b := range blocks(t, page) {
			where := fmt.Sprintf("%s:%d", page, b.line)
			switch kind, name, _ := strings.Cut(b.info, " "); {
			case kind == "yaml" && name != "":
				if err := os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := config.Load(filepath.Join(dir, name)); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			case kind == "shell" && name == "":
				printed = b.run(t, where, dir)
				ran++
			case kind == "shell": // needs an agent, and has a test of its own
				printed = nil
			case kind == "output" && printed != nil:
				if !bytes.HasPrefix(printed, []byte(b.text)) {
					t.Errorf("%s: printed was\n%s", where, printed[:min(len(printed), len(b.text)+200)])
				}
			}
		}
	}
	if ran < 3 {
		t.Errorf("only %d shell blocks ran", ran)
	}
}

var (
	command = regexp.MustCompile(`(?m)^(?:\$ )?weir ([a-z]+)(?: ([a-z][a-z-]*[a-z]))?`)
	quoted  = regexp.MustCompile("`weir ([a-z]+)(?: ([a-z][a-z-]*[a-z]))?")
	target  = regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z0-9-]*)")
)

// TestCommandsExist: what the pages tell people to type is there.
func TestCommandsExist(t *testing.T) {
	makefile := read(t, root+"/Makefile")
	known := map[string]bool{}
	check := func(page string, m []string) {
		args := []string{m[1]}
		if slices.Contains([]string{"pipeline", "checkpoint", "savepoint", "central", "state", "deadletter", "journal", "handover", "boards", "keys", "release", "fleet"}, m[1]) && m[2] != "" {
			args = append(args, m[2])
		}
		key := strings.Join(args, " ")
		if _, done := known[key]; !done {
			out, err := exec.Command(weir, append(args, "--help")...).CombinedOutput()
			known[key] = err == nil && bytes.Contains(out, []byte("weir "+key))
		}
		if !known[key] {
			t.Errorf("%s: there is no command weir %s", page, key)
		}
	}
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			for _, m := range command.FindAllStringSubmatch(b.text, -1) {
				check(page, m)
			}
		}
		text := read(t, page)
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			check(page, m)
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !makes(makefile, m[1]) {
				t.Errorf("%s: there is no make %s", page, m[1])
			}
		}
	}
	if len(known) < 10 {
		t.Errorf("only %d commands found", len(known))
	}
}

// makes tells whether a Makefile has a target, by itself or by a pattern rule.
func makes(makefile, name string) bool {
	if strings.Contains(makefile, "\n"+name+":") {
		return true
	}
	for _, rule := range regexp.MustCompile(`(?m)^([a-z-]+)%([a-z-]*):`).FindAllStringSubmatch(makefile, -1) {
		if strings.HasPrefix(name, rule[1]) && strings.HasSuffix(name, rule[2]) && len(name) > len(rule[1])+len(rule[2]) {
			return true
		}
	}
	return false
}

// logLine finds messages of warnings and errors. Messages are constants (STYLE), so the list is complete.
var logLine = regexp.MustCompile(`\.(?:Warn|Error)\(\s*("(?:[^"\\]|\\.)*")`)

// explained finds the rows of the tables of log lines.
var explained = regexp.MustCompile("(?m)^\\| `([^`|]+)` \\|[^\n|]*\\|[^\n|]*\\|$")

// TestEveryAlarmIsExplained: docs/operations.md tells what to do about each warning and error, and of none that the program has no more.
func TestEveryAlarmIsExplained(t *testing.T) {
	page := read(t, root+"/docs/operations.md")
	found := 0
	var program strings.Builder
	for _, folder := range []string{"agent", "pipeline", "store", "snapshot", "uplink"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			text := read(t, path)
			program.WriteString(text)
			for _, m := range logLine.FindAllStringSubmatch(text, -1) {
				found++
				if !strings.Contains(page, "| `"+strings.Trim(m[1], `"`)+"` |") {
					t.Errorf("%s: docs/operations.md does not explain %s", path, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 40 {
		t.Errorf("only %d log lines found: the pattern is wrong", found)
	}
	rows := explained.FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		if !strings.Contains(program.String(), `"`+row[1]+`"`) {
			t.Errorf("docs/operations.md explains `%s`, which the program never says", row[1])
		}
	}
	if len(rows) < 40 {
		t.Errorf("only %d rows found: the pattern is wrong", len(rows))
	}
}

// TestMosquittoConf: mosquitto starts with it and complains of nothing.
func TestMosquittoConf(t *testing.T) {
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if path = "/usr/sbin/mosquitto"; !exists(path) {
			t.Skip("mosquitto is not installed")
		}
	}
	dir := t.TempDir()
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("listener 1883", "listener "+port, "/var/lib/mosquitto/", dir+"/").Replace(read(t, root+"/configs/mosquitto.conf"))
	if os.Getuid() == 0 {
		text += "user root\n" // else it changes to a user that may not write dir
	}
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	m, err := rig.StartChild(log, nil, path, "-c", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := rig.WaitListening(addr, nil); err != nil {
		t.Errorf("%v\n%s", err, read(t, log))
	}
	if err := m.Stop(rig.Patience); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"Error", "deprecated", "Unknown"} {
		if strings.Contains(read(t, log), bad) {
			t.Errorf("mosquitto says:\n%s", read(t, log))
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestEveryExampleHasATest: each config in configs/ has cases, and they pass.
func TestEveryExampleHasATest(t *testing.T) {
	configs, err := filepath.Glob(root + "/configs/*.yaml")
	if err != nil || len(configs) < 4 {
		t.Fatalf("%v %v", configs, err)
	}
	for _, name := range configs {
		if cases := strings.TrimSuffix(name, ".yaml") + ".test.yaml"; !strings.HasSuffix(name, ".test.yaml") && !exists(cases) {
			t.Errorf("%s has no %s", name, cases)
		}
	}
	if out, err := exec.Command(weir, "test", root+"/configs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
