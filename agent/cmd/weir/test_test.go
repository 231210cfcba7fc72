package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTest: exit codes and the two forms of the report.
func TestTest(t *testing.T) {
	c := newCLI(t, cliConfig)
	write := func(name, text string) string {
		name = filepath.Join(c.dir, name)
		if err := os.WriteFile(name, []byte("config: weir.yaml\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := write("good.test.yaml", "cases: [{name: one, input: [{at: 0s, topic: a/b, payload: {x: 2}}], crash_at: [0s], expect: {out: [{x: 2}]}}]\n")
	if code, out, _ := c.run("test", good); code != 0 || !strings.Contains(out, "one (1 messages, 1 results; the same after 1 crashes") || !strings.HasSuffix(out, "1 passed, 0 failed\n") {
		t.Errorf("code %d\n%s", code, out)
	}
	bad := write("bad.test.yaml", "cases: [{name: two, input: [{at: 0s, topic: a/b, payload: {x: 2}}], expect: {out: [{x: 3}]}}]\n")
	if code, out, _ := c.run("test", good, bad); code != exitFailed || !strings.Contains(out, "x is 2, expected 3") || !strings.HasSuffix(out, "1 passed, 1 failed\n") {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, out, _ := c.run("test", c.dir, "-o", "json"); code != exitFailed || !strings.Contains(out, `"case":"two","passed":false`) {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, _, message := c.run("test", write("wrong.test.yaml", "cases: [{nam: x}]\n")); code != exitUsage || !strings.Contains(message, "nam") {
		t.Errorf("code %d %s", code, message)
	}
	if code, _, _ := c.run("test"); code != exitUsage {
		t.Errorf("no file: code %d", code)
	}
}
