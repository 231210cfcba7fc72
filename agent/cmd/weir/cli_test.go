package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/statedir"
)

const cliConfig = `
gateway: cli
state_dir: DIR/state
security: {file_root: DIR/files}
brokers:
  b: {url: "tcp://127.0.0.1:9"}
sources:
  s: {mqtt: {broker: b, topic: "a/{k}"}}
pipelines:
  p:
    steps:
      - {uid: f, from: s, filter: "x > 1"}
    sinks:
      - {uid: out, from: f, file: {path: out.jsonl}}
`

// cli runs the command line in this process.
type cli struct {
	t      *testing.T
	dir    string
	config string
}

func newCLI(t *testing.T, text string) *cli {
	dir, err := os.MkdirTemp("", "weir") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cli{t: t, dir: dir, config: filepath.Join(dir, "weir.yaml")}
	if err := os.WriteFile(c.config, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cli) run(args ...string) (code int, stdout, message string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append(args, "-c", c.config))
	if err := cmd.ExecuteContext(c.t.Context()); err != nil {
		return exitCode(err), out.String(), err.Error()
	}
	return 0, out.String(), errs.String()
}

func (c *cli) want(code int, says string, args ...string) string {
	c.t.Helper()
	got, out, message := c.run(args...)
	if got != code || !strings.Contains(out+message, says) {
		c.t.Errorf("weir %s: exit code %d, want %d; says %q, want %q", strings.Join(args, " "), got, code, out+message, says)
	}
	return out
}

func (c *cli) untouched() {
	c.t.Helper()
	if _, err := os.Stat(filepath.Join(c.dir, "state")); !os.IsNotExist(err) {
		c.t.Errorf("state_dir is there: %v", err)
	}
}

func TestExitCodesOfUsage(t *testing.T) {
	c := newCLI(t, cliConfig)
	c.want(2, "unknown flag", "check", "--nonsense")
	c.want(2, "--help", "check", "extra")
	c.want(2, "--help", "checkpoint", "ls")
	c.want(2, `"x"`, "deadletter", "show", "p", "x")
	c.want(2, "--accept-gap", "run", "--accept-gap", "q")
	c.want(2, "--allow-empty", "run", "--allow-empty", "q")
	c.want(3, "no agent is running", "status")
	c.want(3, "no agent is running", "pipeline", "stop", "p")
	c.untouched()
}

// TestBadConfigTouchesNothing: exit code 2 with the place, and no state_dir.
func TestBadConfigTouchesNothing(t *testing.T) {
	for text, says := range map[string]string{
		strings.Replace(cliConfig, "state_dir", "stat_dir", 1):                             `did you mean "state_dir"?`,
		strings.Replace(cliConfig, "x > 1", "x >", 1):                                      "weir.yaml:12:39",
		cliConfig + "central: {url: \"gs://bucket\"}\n":                                    "the scheme \"gs\" is not file or s3",
		strings.Replace(cliConfig, "brokers:\n  b: {url: \"tcp://127.0.0.1:9\"}\n", "", 1): "broker \"b\" is not defined",
		strings.Replace(cliConfig, "brokers:\n  b:", "brokers:\n  c:", 1):                  "weir.yaml:",
	} {
		c := newCLI(t, text)
		c.want(2, says, "run")
		c.untouched()
	}
}

func TestCheckSchemaVersion(t *testing.T) {
	c := newCLI(t, cliConfig)
	c.want(0, ": ok, 1 pipelines", "check")
	c.want(0, ": ok, 1 pipelines", "lint")
	for _, args := range [][]string{{"check", "-o", "json"}, {"schema"}, {"version", "-o", "json"}} {
		var v map[string]any
		if out := c.want(0, "{", args...); json.Unmarshal([]byte(out), &v) != nil || len(v) == 0 {
			t.Errorf("weir %v prints no JSON object: %s", args, out)
		}
	}
	c.want(0, "weir ", "version")
	c.untouched()
}

// TestTwoOnOneStateDir: whoever comes second is refused with exit code 4.
func TestTwoOnOneStateDir(t *testing.T) {
	c := newCLI(t, cliConfig)
	lock, err := statedir.Acquire(filepath.Join(c.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintf("held by process %d", os.Getpid())
	c.want(4, says, "run")
	c.want(4, says, "fsck")
	c.want(4, says, "journal", "inspect")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	c.want(0, "", "journal", "inspect")
	c.want(0, "journal: 0 records", "fsck")
}

// TestFsckFindsDamage: exit code 1 and a line for it; nothing is changed, and a repair deletes nothing.
func TestFsckFindsDamage(t *testing.T) {
	c := newCLI(t, cliConfig)
	registry := filepath.Join(c.dir, "state", "pipelines.json")
	c.want(0, "journal: 0 records", "fsck")
	if _, err := os.Stat(registry); err == nil {
		t.Error("a check made a file")
	}
	c.want(0, "journal: 0 records", "fsck", "--repair")
	whole, err := os.ReadFile(registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(registry, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(1, "read registry", "fsck")
	if left, err := os.ReadFile(registry); err != nil || len(left) != len(whole)/2 {
		t.Errorf("the damaged file was changed: %v", err)
	}
	c.want(0, "REPAIRED: the registry is made anew", "fsck", "--repair")
	if kept, _ := filepath.Glob(registry + ".aside-*"); len(kept) != 1 {
		t.Error("the damaged registry is not kept")
	}
	c.want(0, "journal: 0 records", "fsck")
}
