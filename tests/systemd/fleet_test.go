package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	weirboot "github.com/weirstream/weir/agent/boot"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// depot signs for a machine's fleet, and leaves on it what the agent would have fetched.
type depot struct {
	m       *machine
	keys    map[signed.Role]signed.KeySigner
	upgrade uint64 // number of the last one
}

// provision gives the machine a root document.
func provision(t *testing.T, m *machine) *depot {
	t.Helper()
	d := &depot{m: m, keys: map[signed.Role]signed.KeySigner{}}
	root := signed.Root{Fleet: "plant", Version: 1, CreatedMs: 1}
	for _, role := range signed.Roles() {
		key, err := signed.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		k := signed.KeySigner(key)
		d.keys[role] = k
		root.Keys = append(root.Keys, signed.NewRootKey(k.Public(), ""))
		*root.Of(role) = signed.Grant{Keys: []signed.KeyID{k.ID()}, Threshold: 1, Since: 1}
	}
	payload, err := root.Encode()
	if err != nil {
		t.Fatal(err)
	}
	e, err := signed.Seal(t.Context(), signed.TypeRoot, payload, d.keys[signed.RoleRoot])
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "/etc/weir/fleet/root.json", string(e.Bytes()))
	return d
}

// fetched leaves a program, its manifest signed by the role release, and a record of an upgrade to it, as of state.
func (d *depot) fetched(t *testing.T, program, version string, state upgrade.State, active, standby upgrade.Slot, from upgrade.Target) upgrade.Record {
	t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	a := document.Artifact{Backend: "self", Arch: "amd64", Bytes: int64(len(b)), SHA256: hexOf(b), ChunkBytes: document.ChunkBytesMax}
	for at := 0; at < len(b); at += document.ChunkBytesMax {
		a.Chunks = append(a.Chunks, hexOf(b[at:min(at+document.ChunkBytesMax, len(b))]))
	}
	a.Compat = document.Compat{Formats: map[string]document.Versions{}, State: map[string]document.Versions{}}
	r := document.Release{Fleet: "plant", Version: version, CreatedMs: 1, SecureVersion: 1, Artifacts: []document.Artifact{a}}
	payload, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	e, err := signed.Seal(t.Context(), signed.TypeRelease, payload, d.keys[signed.RoleRelease])
	if err != nil {
		t.Fatal(err)
	}
	d.m.run(t, "install", "-d", "-o", "weir", "-g", "weir", "-m", "750", "/var/lib/weir/upgrade")
	d.m.write(t, "/var/lib/weir/upgrade/release.json", string(e.Bytes()))
	if out, err := exec.Command("cp", program, d.m.path("/var/lib/weir/upgrade/slot")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	d.upgrade++
	rec := upgrade.Record{Number: d.upgrade, State: state, Target: upgrade.Target{Release: hexOf(payload), Version: version, Backend: "self", SHA256: a.SHA256, Bytes: a.Bytes, SecureVersion: 1}, From: from, Active: active, Standby: standby,
		Tries: upgrade.TriesNew, Began: weirboot.Now()}
	d.save(t, rec)
	return rec
}

func (d *depot) store() upgrade.Store {
	return upgrade.Store{FS: disk.OS, Dir: d.m.path("/var/lib/weir/upgrade")}
}

func (d *depot) save(t *testing.T, r upgrade.Record) {
	t.Helper()
	if err := d.store().Save(&r); err != nil {
		t.Fatal(err)
	}
	d.m.run(t, "chown", "-R", "weir:weir", "/var/lib/weir/upgrade")
}

func (d *depot) record(t *testing.T) upgrade.Record {
	t.Helper()
	r, err := d.store().Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hexOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// runs is the program of the service's main process; "": there is none.
func (m *machine) runs() string {
	pid := m.show("MainPID")
	if pid == "0" {
		return ""
	}
	out, err := m.try("readlink", "/proc/"+pid+"/exe")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// linked is what the next ExecStart runs.
func (m *machine) linked() string {
	out, err := m.try("readlink", "-f", "/var/lib/weir-boot/current/weir")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// helper asks the helper.
func (m *machine) helper(t *testing.T) (s weirboot.Status) {
	t.Helper()
	out := m.run(t, "/usr/lib/weir/weir-boot", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// builtOnce makes a program for the tests of upgrades, kept where the packages are.
func builtOnce(t *testing.T, name string, args ...string) string {
	t.Helper()
	dir := scratch
	if *builtFlag != "" {
		dir = *builtFlag
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", file}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", name, err, last(out, 2000))
	}
	return file
}

// standin builds a program that does what a broken weir does.
func standin(t *testing.T, does string) string {
	return builtOnce(t, "standin-"+does, "-ldflags", "-s -w -X main.does="+does, "./standin")
}

// nextWeir is the same weir of another version.
func nextWeir(t *testing.T) string {
	t.Helper()
	dir := scratch
	if *builtFlag != "" {
		dir = *builtFlag
	}
	file := filepath.Join(dir, "next", "weir-linux-amd64")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	cmd := exec.Command("make", "-s", "-C", root, "cross-amd64", "DIR="+filepath.Dir(file), "VERSION="+nextVersion)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make cross-amd64: %v: %s", err, last(out, 2000))
	}
	return file
}

const nextVersion = "v9.9.9"

// killInit kills the machine's PID 1, and all that runs with it, and boots it again from the same root. between is done while nothing runs.
func (m *machine) killInit(t *testing.T, between ...func()) {
	t.Helper()
	pid := m.init.Process.Pid
	if err := m.init.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.await(t, "process 1 is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	for _, do := range between {
		do()
	}
	before := m.init
	m.init = exec.Command(before.Path, before.Args[1:]...)
	m.init.Stdout, m.init.Stderr = m.log, m.log
	m.init.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: before.SysProcAttr.Cloneflags}
	closeGroup := m.ownGroup()
	defer closeGroup()
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) describe() string {
	return fmt.Sprintf("%s/%s, restarts %s, runs %s, linked %s", m.show("ActiveState"), m.show("SubState"), m.show("NRestarts"), m.runs(), m.linked())
}
