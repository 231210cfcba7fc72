package device

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// TestCommands: the script that the machine runs does what the host says, tells what came of it, and connects again when the host hangs up.
func TestCommands(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("%v: %v", errNotHere, err)
	}
	c, err := newCommands()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	_, port, err := net.SplitHostPort(c.addr())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "command.sh")
	text := "while :; do\n" + strings.ReplaceAll(commandScript, guestIP+"/"+commandPort, "127.0.0.1/"+port) + "exec 3>&-\ndone\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := rig.StartChild(filepath.Join(t.TempDir(), "log"), nil, bash, script)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Kill()
	for range 2 {
		for _, x := range []struct {
			line, out string
			code      int
		}{{"echo a; echo b", "a\nb", 0}, {"echo wrong >&2; (exit 7)", "wrong", 7}, {"cat", "", 0}} {
			if out, code, err := c.run(t.Context(), x.line, rig.Patience); out != x.out || code != x.code || err != nil {
				t.Errorf("%s: %q, exit code %d, %v", x.line, out, code, err)
			}
		}
		c.forget()
	}
	shell.Kill()
	if _, _, err = c.run(t.Context(), "true", time.Millisecond); !errors.Is(err, errShell) {
		t.Errorf("%v, want %v", err, errShell)
	}
}

// TestReadyWithoutHelp: what the unit says at a boot, and whether it is as it must be.
func TestReadyWithoutHelp(t *testing.T) {
	for line, most := range map[string]int{
		"ready wall 1s cpu 1s":                        0,
		"ready restarts=0 failed= VmRSS: 24064 kB":    0,
		"ready restarts=1 failed= VmRSS: 24064 kB":    1,
		"ready restarts=12 failed= VmRSS: 24064 kB":   12,
		"ready restarts=0 failed=a.service VmRSS: 1":  -1,
		"ready restarts=0 failed=a.service b.service": -1,
		"ready restarts= failed= VmRSS: 24064 kB":     -1,
	} {
		if most >= 0 && !readyWithoutHelp(line, most) {
			t.Errorf("%s: it is not as it must be with %d restarts", line, most)
		}
		if strings.Contains(line, "restarts=") && readyWithoutHelp(line, most-1) {
			t.Errorf("%s: it is as it must be with %d restarts", line, most-1)
		}
	}
}
