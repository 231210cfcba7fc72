package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/boards"
)

// rootOf is a machine whose device tree says names.
func rootOf(t *testing.T, arch string, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"proc/device-tree/compatible": strings.Join(names, "\x00") + "\x00", "proc/sys/kernel/arch": arch + "\n", "proc/meminfo": "MemTotal: 1048576 kB\n"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestBoards(t *testing.T) {
	c := newCLI(t, cliConfig)
	list := c.want(0, "", "boards", "ls")
	for _, id := range boards.IDs() {
		if !strings.Contains(list, "\n"+id+" ") {
			t.Errorf("%s is not listed:\n%s", id, list)
		}
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(c.want(0, "", "boards", "ls", "-o", "json")), &all); err != nil || len(all) != len(boards.IDs()) {
		t.Errorf("%d boards, %v", len(all), err)
	}
	_, text := boards.Text("rpi4")
	if got := c.want(0, "", "boards", "show", "rpi4"); got != string(text) {
		t.Errorf("%s", got)
	}
	c.want(0, `"GOMEMLIMIT":100663296`, "boards", "show", "rpi4", "-o", "json")
	c.want(exitUsage, `did you mean rpi4?`, "boards", "show", "rpi44")
	c.want(exitUsage, "", "boards", "show")
	if got := c.want(0, "", "boards", "schema"); got != string(config.ProfileSchema()) {
		t.Error("another schema")
	}

	pi := rootOf(t, "aarch64", "raspberrypi,4-model-b", "brcm,bcm2711")
	c.want(0, "board rpi4: Raspberry Pi 4 Model B\n  because the device tree says \"raspberrypi,4-model-b\"\n  device tree: raspberrypi,4-model-b, brcm,bcm2711\n", "boards", "detect", "--root", pi)
	c.want(0, `{"board":"rpi4","why":"the device tree says \"raspberrypi,4-model-b\"","name":"Raspberry Pi 4 Model B","facts":{"compatible":["raspberrypi,4-model-b","brcm,bcm2711"]`, "boards", "detect", "--root", pi, "-o", "json")
	c.want(exitNoBoard, "board generic-arm64", "boards", "detect", "--root", rootOf(t, "aarch64", "acme,gateway"))
	c.want(exitNoBoard, "board unknown: no profile\n  because ", "boards", "detect", "--root", rootOf(t, "riscv64", "acme,gateway"))
	c.want(0, "MemoryHigh=112M\n", "boards", "unit", "--root", pi)
	c.want(0, "MemoryHigh=122M\n", "boards", "unit", "--root", rootOf(t, "aarch64", "acme,gateway"))
	c.want(0, "MemoryHigh=12%\n", "boards", "unit", "generic-arm64")
	c.want(exitUsage, "there is no board", "boards", "unit", "nope")
	c.want(exitUsage, "there is no board", "boards", "unit", "--root", rootOf(t, "riscv64", "acme,gateway"))
}

// TestCheckTellsWhatTheBoardSets: each value with where it is from.
func TestCheckTellsWhatTheBoardSets(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	c := newCLI(t, "board: rpi4\n"+strings.Replace(cliConfig, "    steps:", "    checkpoint: {interval: 15s}\n    steps:", 1))
	out := c.want(0, "board rpi4: the config says so\n", "check")
	for _, want := range [][]string{{"journal.linger", "20ms", "board rpi4"}, {"pipelines.p.checkpoint.interval", "15s", ":12"}, {"pipelines.p.checkpoint.retained", "3", "board rpi4"}, {"led.status", "ACT", "board rpi4"}, {"GOMEMLIMIT", "", ""}} {
		found := false
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			found = found || len(f) > 2 && f[0] == want[0] && strings.Contains(f[1], want[1]) && strings.HasSuffix(strings.TrimSpace(line), want[2])
		}
		if !found {
			t.Errorf("no line %v in\n%s", want, out)
		}
	}
	c.want(0, `"board":{"board":"rpi4","why":"the config says so","values":[{"setting":"journal.linger","value":"20ms","from":"board rpi4"}`, "check", "-o", "json")
	plain := newCLI(t, "board: none\n"+cliConfig)
	plain.want(0, "board none: the config says so\n  journal.linger                   5ms ", "check")
	c.untouched()
}

// TestDropInsAreUnits: systemd takes the unit with the drop-in of each board.
func TestDropInsAreUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT TESTED HERE: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile("../../../configs/systemd/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.NewReplacer("/usr/bin/weir", stub, "/var/lib/weir-boot/current/weir", stub, "/usr/lib/weir/weir-boot", stub)
	dir := t.TempDir()
	for _, p := range config.Profiles() {
		name := filepath.Join(dir, "weir-"+p.ID+".service")
		if err := os.Mkdir(name+".d", 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{name: programs.Replace(string(unit)), name + ".d/board.conf": boards.DropIn(p, boards.Facts{})} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(name)) {
			t.Errorf("%s: %v\n%s", p.ID, err, out)
		}
	}
}
