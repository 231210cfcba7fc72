package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUnitWaitsForItsMounts: what lies on a mount of its own is there before the helper, or the agent, looks for it. systemd waits for those of StateDirectory by itself (systemd.exec, implicit dependencies).
func TestUnitWaitsForItsMounts(t *testing.T) {
	text := read(t, root+"/configs/systemd/weir.service")
	waits, named := map[string]bool{}, map[string]bool{}
	for l := range strings.Lines(text) {
		name, value, is := strings.Cut(strings.TrimSpace(l), "=")
		if !is || strings.HasPrefix(name, "#") {
			continue
		}
		for _, word := range strings.Fields(value) {
			switch name {
			case "StateDirectory":
				waits["/var/lib/"+word] = true
			case "RequiresMountsFor":
				waits[word] = true
			default:
				if dir := stateOf.FindString(word); dir != "" {
					named[dir] = true
				}
			}
		}
	}
	if !named["/var/lib/weir-boot"] {
		t.Errorf("the unit names %v, and no helper's directory", named)
	}
	for dir := range named {
		if !waits[dir] {
			t.Errorf("the unit does not wait for the mount of %s", dir)
		}
	}
}

// stateOf is the directory of weir's that a path lies in.
var stateOf = regexp.MustCompile(`/var/lib/weir[a-z-]*`)

// TestUnit: systemd takes the unit.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit := filepath.Join(t.TempDir(), "weir.service")
	text := strings.NewReplacer("/usr/bin/weir", weir, "/var/lib/weir-boot/current/weir", weir, "/usr/lib/weir/weir-boot", weir).Replace(read(t, root+"/configs/systemd/weir.service"))
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("weir.service")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// exposureMost is what systemd-analyze may say of the unit: 0 is best, 10 is worst; a bare unit has 9.6.
const exposureMost = 1.5

// TestExposure: the unit keeps the service in. Without one of its restrictions that shows.
func TestExposure(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text := read(t, root+"/configs/systemd/weir.service")
	exposure := func(text string) float64 {
		unit := filepath.Join(t.TempDir(), "weir.service")
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", unit).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for weir.service: ([0-9.]+)`).FindSubmatch(out)
		if m == nil {
			t.Skipf("this systemd-analyze judges no files: %v\n%.300s", err, out)
		}
		level, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return level
	}
	level := exposure(text)
	if level > exposureMost {
		t.Errorf("exposure %.1f, %.1f at most: `systemd-analyze security --offline=true configs/systemd/weir.service` tells why", level, exposureMost)
	}
	if open := exposure(strings.ReplaceAll(text, "CapabilityBoundingSet=\n", "")); open <= level {
		t.Errorf("with all capabilities the exposure is %.1f, without them %.1f", open, level)
	}
	if page := read(t, root+"/docs/install.md"); !strings.Contains(page, fmt.Sprintf("`systemd-analyze security weir` says %.1f", level)) {
		t.Errorf("docs/install.md says something else than %.1f", level)
	}
}
