package device

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// upgrades are those of a machine with systemd: one behind the other, each with a power cut in it.
type upgrades struct {
	*stage
	next   []byte // the program that they bring, but for its last bytes
	append string // to the kernel's command line, as it was before
	tried  int
	number uint64 // of the last one
	runs   string // digest of the program that is to run
	table  strings.Builder
}

// upgradeCase is one of them.
type upgradeCase struct {
	bad  string // how the program is broken (agent/fault_weirfault.go, plantedBad); "": it is not
	at   string // when the power is cut: behind this on the machine's console; "": any time
	step string // or: when the program with planted faults has come to this step (agent/upgrader.go)
	want upgrade.State
}

// cutting says when the power of a case is cut.
func (c *upgradeCase) cutting() string {
	switch {
	case c.step != "":
		return strings.TrimPrefix(c.step, "upgrade-")
	case c.at != "":
		return "behind " + strings.TrimPrefix(c.at, stateLine)
	}
	return "any time"
}

// stateLine is how the agent's log tells a state.
const stateLine = "state="

// restartsMost are those of an upgrade: the switch, the starts of a program on trial, the way back.
const restartsMost = 2*upgrade.TriesNew + 2

// newUpgrades begins upgrades of the machine that runs, whose program is the package's.
func newUpgrades(st *stage, next string) *upgrades {
	u := &upgrades{stage: st, append: st.hardware.append}
	var err error
	u.next, err = os.ReadFile(next)
	st.must(err)
	u.restartsMost = restartsMost
	u.runs = u.running()
	return u
}

// running is the digest of the program that runs.
func (u *upgrades) running() string {
	u.t.Helper()
	sum, _, _ := strings.Cut(u.sh("sha256sum </proc/$(systemctl show -P MainPID weir)/exe"), " ")
	return sum
}

// order asks for an upgrade, and gives the digest of its program. The file is there again at the next boot.
func (u *upgrades) order(c *upgradeCase) string {
	u.t.Helper()
	u.tried++
	number := fmt.Sprint(u.tried)
	program := append(u.next[:len(u.next):len(u.next)], fmt.Sprintf(nextEnd, number, c.bad)...)
	file := filepath.Join(u.dir, "next")
	u.must(os.WriteFile(file, program, 0o644))
	release, err := rig.Release(u.t.Context(), file, nextVersion, func(r *document.Release) { r.Artifacts[0].Arch = "arm64" })
	u.must(err)
	u.hardware.append = fmt.Sprintf("%s device.program=%s device.bad=%s", u.append, number, c.bad)
	u.sh(fmt.Sprintf("sh /opt/device/compose.sh %s '%s' && rm -f %s/step %[3]s/reached && echo %s | base64 -d >/run/release.json", number, c.bad, plantDir, base64.StdEncoding.EncodeToString(release)))
	if c.step != "" {
		u.sh(fmt.Sprintf("echo '%s pause' >%s/.step && mv %[2]s/.step %[2]s/step && chmod 666 %[2]s/step", c.step, plantDir))
	}
	u.number++
	if out := u.sh("weir upgrade " + nextFile + " --release /run/release.json -o json"); !strings.Contains(out, fmt.Sprintf(`"number":%d`, u.number)) {
		u.t.Fatalf("upgrade %d: %s", u.number, out)
	}
	sum := sha256.Sum256(program)
	return hex.EncodeToString(sum[:])
}

// run carries a case out, and adds its line to the table.
func (u *upgrades) run(c upgradeCase) {
	u.t.Helper()
	from := u.consoleBytes()
	target := u.order(&c)
	u.awaitInstant(&c, from)
	lost := u.disk.Counters().Unflushed
	u.cut()
	u.boot()
	found, torn := u.found()
	u.must(torn)
	s := u.awaitRest()
	if upgrade.State(s.Upgrade.State) != c.want {
		u.t.Errorf("upgrade %d (%s, cut %s, found %s): it ended %s (%s), want %s", u.number, c.bad, c.cutting(), found.State, s.Upgrade.State, s.Upgrade.Why, c.want)
	}
	if s.Upgrade.State == string(upgrade.Committed) {
		u.runs = target
	}
	if is := u.running(); is != u.runs {
		u.t.Errorf("upgrade %d (%s, cut %s, found %s): program %.12s runs, want %.12s", u.number, c.bad, c.cutting(), found.State, is, u.runs)
	}
	v := u.awaitArrived()
	if !v.exact() {
		u.t.Errorf("upgrade %d (%s, cut %s, found %s): %v", u.number, c.bad, c.cutting(), found.State, v)
	}
	program := map[string]string{"": "good", "crash": "crashes at once", "silent": "never ready", "hungry": "takes all memory"}[c.bad]
	fmt.Fprintf(&u.table, "%-16s | %-28s | %-11s | %4d | %-11s | lost %d duplicate %d | %.60s\n", program, c.cutting(), found.State, lost, s.Upgrade.State, v.lost, v.duplicate, s.Upgrade.Why)
	u.t.Logf("upgrade %d: %s, cut %s, found %s, ended %s", u.number, program, c.cutting(), found.State, s.Upgrade.State)
}

func (u *upgrades) consoleBytes() int { return len(u.wholeConsole()) }

// awaitInstant waits for the one at which the power of a case is cut.
func (u *upgrades) awaitInstant(c *upgradeCase, from int) {
	u.t.Helper()
	switch {
	case c.step != "":
		u.until("the agent comes to "+c.step, func() bool {
			out, _, err := u.commands.run(u.t.Context(), "ls "+plantDir, bootMost)
			return err == nil && strings.Contains(out, "reached")
		})
	case c.at != "":
		u.until("the machine says "+c.at, func() bool { return bytes.Contains(u.wholeConsole()[from:], []byte(c.at)) })
		u.instant()
	default:
		time.Sleep(time.Duration(u.random.Int64N(int64(u.bootsTook[0]) * 2)))
		u.instant()
	}
}

// upgradeMost bounds each part of an upgrade. That of a program that is never ready takes three minutes on an idle host.
const upgradeMost = bootMost

// awaitRest waits until the upgrade has ended and every pipeline runs.
func (u *upgrades) awaitRest() (s *api.Status) {
	u.t.Helper()
	u.until("the upgrade has ended, and the pipelines run", func() bool {
		out, code, err := u.commands.run(u.t.Context(), "weir status -o json", bootMost)
		s = &api.Status{}
		if err != nil || code != 0 || json.Unmarshal([]byte(out), s) != nil || s.Upgrade == nil || s.Upgrade.Number != u.number || len(s.Pipelines) == 0 {
			return false
		}
		for _, p := range s.Pipelines {
			if p.State != "running" {
				return false
			}
		}
		rec := upgrade.Record{State: upgrade.State(s.Upgrade.State)}
		return rec.Resting()
	})
	return s
}

// patience with records that do not come: the time of several boots on a slow host.
const patience = 10 * time.Minute

// awaitArrived waits until all messages that were published until now have arrived, and judges them.
func (u *upgrades) awaitArrived() *verdict {
	u.t.Helper()
	n := int(u.feed.published.Load())
	for last, moved := -1, time.Now(); ; time.Sleep(followPoll) {
		u.must(u.oracle.follow())
		v := u.oracle.judgeMessages(n)
		if u.oracle.arrived > last {
			last, moved = u.oracle.arrived, time.Now()
		}
		if v.lost == 0 || time.Since(moved) > patience {
			return v
		}
	}
}

// found is what the boot of the machine that runs has found of the upgrade, before anything of weir ran. The error: a slot that counts as verified does not hold what was verified.
func (u *upgrades) found() (r upgrade.Record, torn error) {
	u.t.Helper()
	dir := filepath.Join(u.dir, fmt.Sprintf("found-%03d", u.boots))
	u.must(os.Mkdir(dir, 0o755))
	for _, line := range said.FindAllStringSubmatch(string(u.wholeConsole()), -1) {
		words := strings.Fields(line[2])
		switch {
		case len(words) == 3 && words[0] == "record":
			u.must(os.WriteFile(filepath.Join(dir, "rec."+words[1]), unpacked(u.t.Fatal, words[2]), 0o644))
		case words[0] == "slot":
			var about struct{ SHA256 string }
			text, err := base64.StdEncoding.DecodeString(words[len(words)-1])
			if err == nil {
				err = json.Unmarshal(text, &about)
			}
			if err != nil || len(words) != 4 || words[2] != about.SHA256 {
				torn = fmt.Errorf("slot %s holds %s, and what was verified is %s: %w", words[1], words[2], about.SHA256, errTorn)
			}
		}
	}
	r, err := upgrade.Store{FS: disk.OS, Dir: dir}.Read()
	u.must(err)
	return r, torn
}

var errTorn = fmt.Errorf("the power cut has torn a program")

func unpacked(fatal func(...any), text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		fatal(err)
	}
	b, err = io.ReadAll(z)
	if err != nil {
		fatal(err)
	}
	return b
}
