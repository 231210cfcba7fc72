package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// gateway is a state directory, a helper, and whoever signs for the fleet.
type gateway struct {
	*testing.T
	p       Places
	starts  int
	keys    map[signed.Role]signed.KeySigner
	root    signed.Root
	said    []string
	factory []byte
	waits   []time.Duration
}

const board = "arm64" // what the programs of the tests are for

func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir := t.TempDir()
	g := &gateway{T: t, keys: map[signed.Role]signed.KeySigner{}, factory: program("factory", 5000)}
	at := func(name string) string { return filepath.Join(dir, name) }
	g.p = Places{State: at("state"), Dir: at("boot"), Run: at("run"), Counted: at("agent-run/counted"), Factory: at("factory"), Provisioned: at("etc/root.json"), Arch: board, Owner: os.Geteuid(), Limit: time.Hour,
		Say: func(_ int, text string) { g.said = append(g.said, text) }, Wait: func(d time.Duration) { g.waits = append(g.waits, d) }}
	for _, d := range []string{"state", "agent-run", "factory", "etc"} {
		g.must(os.Mkdir(at(d), 0o755))
	}
	g.must(os.WriteFile(at("factory/weir"), g.factory, 0o755))
	for _, role := range signed.Roles() {
		g.keys[role] = newKey(t)
	}
	g.root = rootOf(1, g.keys)
	g.must(os.WriteFile(g.p.Provisioned, g.sealRoot(&g.root, g.keys[signed.RoleRoot]), 0o644))
	return g
}

func (g *gateway) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func newKey(t *testing.T) signed.KeySigner {
	t.Helper()
	k, err := signed.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signed.KeySigner(k)
}

func rootOf(version uint64, keys map[signed.Role]signed.KeySigner) signed.Root {
	r := signed.Root{Fleet: "plant", Version: version, CreatedMs: 1}
	for _, role := range signed.Roles() {
		k := keys[role]
		r.Keys = append(r.Keys, signed.NewRootKey(k.Public(), ""))
		*r.Of(role) = signed.Grant{Keys: []signed.KeyID{k.ID()}, Threshold: 1, Since: 1}
	}
	return r
}

func (g *gateway) sealRoot(r *signed.Root, by ...signed.Signer) []byte {
	g.Helper()
	payload, err := r.Encode()
	g.must(err)
	e, err := signed.Seal(context.Background(), signed.TypeRoot, payload, by...)
	g.must(err)
	return e.Bytes()
}

// program is a file of that many bytes, which says what it is.
func program(name string, n int) []byte {
	return []byte(name + "\n" + strings.Repeat("x", n-len(name)-1))
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// releaseOf is a manifest that names a program.
func releaseOf(b []byte) document.Release {
	a := document.Artifact{Backend: "self", Arch: board, Bytes: int64(len(b)), SHA256: digestOf(b), ChunkBytes: document.ChunkBytesMin}
	for at := 0; at < len(b); at += document.ChunkBytesMin {
		a.Chunks = append(a.Chunks, digestOf(b[at:min(at+document.ChunkBytesMin, len(b))]))
	}
	a.Compat = document.Compat{Formats: map[string]document.Versions{}, State: map[string]document.Versions{}}
	return document.Release{Fleet: "plant", Version: firstLine(b), CreatedMs: 1, SecureVersion: 1, Artifacts: []document.Artifact{a}}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// fetched leaves a program and its manifest where the agent would.
func (g *gateway) fetched(b []byte, r document.Release, by ...signed.Signer) upgrade.Target {
	g.Helper()
	if len(by) == 0 {
		by = []signed.Signer{g.keys[signed.RoleRelease]}
	}
	payload, err := r.Encode()
	g.must(err)
	e, err := signed.Seal(context.Background(), signed.TypeRelease, payload, by...)
	g.must(err)
	g.must(os.MkdirAll(g.state(""), 0o755))
	g.must(os.WriteFile(g.state(releaseFile), e.Bytes(), 0o644))
	g.must(os.WriteFile(g.state(stagedFile), b, 0o644))
	return upgrade.Target{Release: digestOf(payload), Version: r.Version, Backend: "self", SHA256: digestOf(b), Bytes: int64(len(b)), SecureVersion: r.SecureVersion, MinSecureVersion: r.MinSecureVersion}
}

// state is a file of the agent's.
func (g *gateway) state(name string) string { return filepath.Join(g.p.State, upgradeDir, name) }

func (g *gateway) store() upgrade.Store {
	return upgrade.Store{FS: disk.OS, Dir: g.state("")}
}

func (g *gateway) save(r upgrade.Record) {
	g.Helper()
	g.must(g.store().Save(&r))
}

func (g *gateway) load() upgrade.Record {
	g.Helper()
	r, err := g.store().Read()
	g.must(err)
	return r
}

// record of an upgrade from the factory program.
func fromFactory(state upgrade.State, to upgrade.Target) upgrade.Record {
	return upgrade.Record{Number: 1, State: state, Target: to, From: upgrade.Target{Version: "factory"}, Active: upgrade.Factory, Standby: upgrade.SlotA, Tries: upgrade.TriesNew}
}

// killed ends a run where kill -9 would.
type killed struct{ step string }

// part runs one line of the unit, with all that a killed one leaves behind.
func (g *gateway) part(f func() error) (dead bool) {
	g.Helper()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			dead = true
		}
	}()
	if err := f(); err != nil {
		g.said = append(g.said, err.Error())
	}
	return false
}

// start runs the lines of the unit, and tells which program runs.
func (g *gateway) start() string {
	g.Helper()
	g.lines()
	return g.runs()
}

// lines does as systemd does: none of them can keep the program from running.
func (g *gateway) lines() {
	g.Helper()
	g.starts++
	g.p.Start = fmt.Sprintf("start-%d", g.starts)
	g.part(func() error { _, err := g.p.Link(context.Background()); return err })
	g.part(g.p.Count)
	g.part(func() error { _, err := g.p.Settle(context.Background()); return err })
}

// runs is what ExecStart would run. It must always be a whole program.
func (g *gateway) runs() string {
	g.Helper()
	b, err := os.ReadFile(filepath.Join(g.p.Dir, "current", "weir"))
	if errors.Is(err, fs.ErrNotExist) {
		return "nothing"
	}
	g.must(err)
	if name := firstLine(b); string(b) == string(program(name, len(b))) {
		return name
	}
	g.Errorf("what runs is damaged: %.60q", b)
	return "damaged"
}

// installed has the factory program upgraded to one in slot a, which is committed.
func (g *gateway) installed(name string, change func(*document.Release)) (upgrade.Record, []byte) {
	g.Helper()
	b := program(name, 200_000)
	r := releaseOf(b)
	if change != nil {
		change(&r)
	}
	rec := fromFactory(upgrade.Switched, g.fetched(b, r))
	g.save(rec)
	if got := g.start(); got != name {
		g.Fatalf("%s runs, want %s: %q", got, name, g.said)
	}
	rec.State, rec.Tries = upgrade.Committed, 0
	g.save(rec)
	if got := g.start(); got != name {
		g.Fatalf("%s runs, want %s: %q", got, name, g.said)
	}
	return rec, b
}

func (g *gateway) rescue() bool {
	_, err := os.Stat(filepath.Join(g.p.Run, rescueFile))
	return err == nil
}

// reboot takes what is in memory.
func (g *gateway) reboot() {
	g.Helper()
	g.must(os.RemoveAll(g.p.Run))
	g.must(os.RemoveAll(g.p.Counted))
}
