//go:build !nocentral

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// aFleet is a store, keys, and gateways that report.
type aFleet struct {
	*cli
	depot.Depot
	keys  map[string]signed.KeySigner
	flags []string
}

func newFleet(t *testing.T, gateways int) *aFleet {
	t.Helper()
	f := &aFleet{cli: newCLI(t, cliConfig), keys: map[string]signed.KeySigner{}}
	f.begin("keys")
	f.Depot = depot.Depot{Bucket: bucket.OpenDirectory(filepath.Join(f.dir, "store"))}
	f.flags = []string{"--store", "file://" + filepath.Join(f.dir, "store"), "--root", f.at("keys/root.1.json")}
	for i := range gateways {
		f.alive(fmt.Sprintf("gw-%03d", i), "stable", "rpi4")
	}
	return f
}

func (f *aFleet) at(name string) string { return filepath.Join(f.dir, name) }

func (f *aFleet) key(role string) []string { return []string{"--key", f.at("keys/" + role + "-1.key")} }

// says runs a command in this fleet.
func (f *aFleet) says(code int, words string, args ...string) string {
	f.t.Helper()
	return f.want(code, words, append(args, f.flags...)...)
}

func (f *aFleet) put(name, typ, gateway string, payload []byte, err error) {
	f.t.Helper()
	if f.keys[gateway] == nil {
		key, err := signed.NewKey()
		if err != nil {
			f.t.Fatal(err)
		}
		f.keys[gateway] = signed.KeySigner(key)
	}
	var e *signed.Envelope
	if err == nil {
		e, err = signed.Seal(f.t.Context(), typ, payload, f.keys[gateway])
	}
	if err == nil {
		err = f.Bucket.Put(f.t.Context(), name, e.Bytes())
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *aFleet) alive(gateway, channel, board string) {
	f.t.Helper()
	b, err := (&document.State{Gateway: gateway, Channel: channel, Board: board, Arch: "arm64", Version: "1.0", AtMs: 1, Serials: map[string]uint64{}}).Encode()
	f.put(depot.State(gateway), signed.TypeState, gateway, b, err)
}

func (f *aFleet) fares(id, release, gateway, outcome string) {
	f.t.Helper()
	b, err := (&document.Progress{Gateway: gateway, Rollout: id, Release: release, State: "committed", Outcome: outcome, Why: "because \tof it", AtMs: 1}).Encode()
	f.put(depot.Progress(id, gateway), signed.TypeProgress, gateway, b, err)
}

// program writes what looks like a program for arm64, and what it can read.
func (f *aFleet) program(name string) string {
	f.t.Helper()
	head := append([]byte("\x7fELF"), make([]byte, 200_000)...)
	head[18] = 183
	copy(head[100:], name)
	b, err := json.Marshal(compat.Current())
	if err == nil {
		err = os.WriteFile(f.at("compat.json"), b, 0o600)
	}
	if err == nil {
		err = os.WriteFile(f.at(name), head, 0o700)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return "arm64=" + f.at(name) + ",compat=" + f.at("compat.json")
}

// release makes one and gives its sha256.
func (f *aFleet) release(version string, args ...string) string {
	f.t.Helper()
	out := f.says(0, "", append(append([]string{"release", "create", "--version", version, "--artifact", f.program("weir-" + version), "--yes", "-o", "json"}, f.key("release")...), args...)...)
	var made struct{ Release string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || len(made.Release) != 64 {
		f.t.Fatalf("%s: %v", out, err)
	}
	return made.Release
}

func (f *aFleet) status(code int) *standing {
	f.t.Helper()
	var st standing
	if err := json.Unmarshal([]byte(f.says(code, "", "fleet", "status", "-o", "json")), &st); err != nil {
		f.t.Fatal(err)
	}
	return &st
}

func TestReleases(t *testing.T) {
	f := newFleet(t, 0)
	create := func(args ...string) []string {
		return append(append([]string{"release", "create", "--version", "1.4.0", "--yes"}, f.key("release")...), args...)
	}
	f.program("weir-1.4.0")
	good := f.at("weir-1.4.0")
	f.says(2, "nothing says what it can read", create("--artifact", "arm64="+good)...)
	f.says(2, "for another processor than arm", create("--artifact", "arm="+good+",compat="+f.at("compat.json"))...)
	f.says(2, "it is no program (ELF)", create("--artifact", "arm64="+f.at("compat.json")+",compat="+f.at("compat.json"))...)
	f.says(2, "want ARCH=FILE", create("--artifact", "riscv="+good)...)
	f.says(2, "want boards, backend or compat", create("--artifact", "arm64="+good+",x=y")...)
	f.says(2, "no such file", create("--artifact", "arm64="+f.at("none"))...)
	f.says(2, "names no formats", create("--artifact", "arm64="+good+",compat="+f.empty())...)
	f.says(2, "has the role deploy; a document of the type release needs the role release", "release", "create", "--version", "1.4.0", "--artifact", "arm64="+good, "--compat", f.at("compat.json"), "--key", f.at("keys/deploy-1.key"))
	f.says(2, "nobody can be asked here; give --yes", "release", "create", "--version", "1.4.0", "--artifact", "arm64="+good, "--compat", f.at("compat.json"), "--key", f.at("keys/release-1.key"))
	if _, err := os.Stat(f.at("store/_fleet/chunk")); !os.IsNotExist(err) {
		t.Errorf("something was uploaded: %v", err)
	}
	sha := f.release("1.4.0", "--secure-version", "3", "--min-secure-version", "2")
	f.says(0, "2 pieces, 2 of them were there, 0 bytes sent", create("--artifact", f.program("weir-1.4.0"))...)
	f.says(2, "2 releases are called 1.4.0", "release", "show", "1.4.0") // made at another time: another release
	f.says(0, "secure version 3; a gateway that has committed it takes none below 2", "release", "show", sha[:12])
	f.says(0, "arm64 self (any board): whole", "release", "verify", sha)
	f.says(2, "no release 1.9", "release", "show", "1.9")
	f.says(0, "arm64 self (any board)", "release", "ls")
	var r document.Release
	if err := json.Unmarshal([]byte(f.says(0, "", "release", "show", sha, "-o", "json")), &r); err != nil || r.Artifacts[0].Bytes != 200_004 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := f.Bucket.Put(t.Context(), depot.Chunk(r.Artifacts[0].Chunks[0]), []byte("x")); err != nil {
		t.Fatal(err)
	}
	f.says(1, "the store holds something else under that name", "release", "verify", sha)
	if err := f.Bucket.Put(t.Context(), depot.Release(sha), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	f.says(0, "refused", "release", "ls")
	f.untouched()
}

func (f *aFleet) empty() string {
	if err := os.WriteFile(f.at("empty.json"), []byte(`{"formats":{},"state":{}}`), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return f.at("empty.json")
}

// TestProgramsAreAsked: the program of this machine says itself what it can read.
func TestProgramsAreAsked(t *testing.T) {
	if _, known := machines[runtime.GOARCH]; !known {
		t.Skip("NOT TESTED HERE: releases have no programs for " + runtime.GOARCH)
	}
	script := filepath.Join(t.TempDir(), "weir")
	b, err := json.Marshal(compat.Current())
	if err == nil {
		err = os.WriteFile(script, []byte("#!/bin/sh\n[ \"$*\" = 'compat --json' ] || exit 1\ncat <<'END'\n"+string(b)+"\nEND\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if is, err := compatOf(t.Context(), script, runtime.GOARCH, "self", ""); err != nil || len(is.Formats) != len(compat.Current().Formats) {
		t.Errorf("%+v, %v", is, err)
	}
	if _, err := compatOf(t.Context(), script, runtime.GOARCH, "rauc", ""); err == nil {
		t.Error("a bundle is run")
	}
	if says := ownVersion(t.Context(), script); says != "" {
		t.Errorf("a program that does not tell its version calls itself %q", says)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$*\" = 'version -o json' ] && echo '{\"version\":\"1.3.9\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &part{path: "weir", calls: ownVersion(t.Context(), script)}
	if p.misnamed("1.3.9") != "" || !strings.Contains(p.misnamed("1.4.0"), "says that it is version 1.3.9, and the release says 1.4.0: each gateway will refuse it") {
		t.Errorf("calls itself %q: %q, %q", p.calls, p.misnamed("1.3.9"), p.misnamed("1.4.0"))
	}
}

// TestRolloutLife: waves, a release that is halted for its failures, resumed, gone back from.
func TestRolloutLife(t *testing.T) {
	f := newFleet(t, 40)
	f.alive("other-1", "canary", "rpi4")
	sha := f.release("1.4.0", "--secure-version", "2", "--min-secure-version", "2")
	older := f.release("1.3.0", "--secure-version", "1")
	deploy := f.key("deploy")
	f.says(2, "channel stable has no roll-out", "fleet", "status")
	roll := func(version string, args ...string) []string {
		return append(append([]string{"fleet", "rollout", version, "--yes"}, deploy...), args...)
	}
	f.says(2, "want a share", roll("1.4.0", "--waves", "5")...)
	f.says(2, "--max-failed", roll("1.4.0", "--max-failed", "5")...)
	for flag, says := range map[string]string{"--silence=999us": "--silence 999µs: want a time in whole milliseconds, or 0: never", "--silence=-1s": "--silence", "--probation=1.5ms": "--probation 1.5ms", "--expires=1us": "--expires 1µs: want a time from now",
		"--waves=1%:10us,100%": "whole milliseconds behind the colon", "--watch --every=0": "--every 0s: want 10ms at least"} {
		f.says(2, says, roll("1.4.0", strings.Fields(flag)...)...)
	}
	f.says(2, "--watch -1s: want 10ms at least", "fleet", "reconcile", "--watch", "-1s")
	f.says(2, "policy.window", roll("1.4.0", "--window", "always")...)
	f.says(2, "nobody can be asked", append([]string{"fleet", "rollout", "1.4.0"}, deploy...)...)
	f.says(2, "no key: give --key", "fleet", "rollout", "1.4.0", "--yes")
	f.says(2, "has the role release", append([]string{"fleet", "rollout", "1.4.0", "--yes"}, f.key("release")...)...)
	out := f.says(0, "published: roll-out r1, serial 1", roll("1.4.0", "--id", "r1", "--waves", "20%,50%:1h,100%", "--min-reports", "3", "--max-failed", "10%")...)
	if !strings.Contains(out, "40 of 40 gateways are meant; 0 run it already, 0 find no program") {
		t.Errorf("%s", out)
	}
	f.says(2, "there was a roll-out r1 already", roll("1.4.0", "--id", "r1")...)
	st := f.status(0)
	if st.Version != "1.4.0" || st.Wave != 1 || st.Verdict.Counts.Waiting == 0 || st.Verdict.Counts.Known != st.Verdict.Counts.Waiting || st.Unverified != 41 {
		t.Fatalf("%+v", st)
	}
	f.says(0, "the next wave needs", append([]string{"fleet", "reconcile"}, deploy...)...)
	first := f.in("r1", 0, 200)
	for _, g := range first {
		f.fares("r1", sha, g, rollout.Committed)
	}
	f.says(10, "no key was given to publish what follows", "fleet", "reconcile")
	f.says(0, "wave 2, 50% of the gateways, serial 2", append([]string{"fleet", "reconcile"}, deploy...)...)
	f.says(0, "the wave runs for another", append([]string{"fleet", "reconcile"}, deploy...)...)
	second := f.in("r1", 200, 500)
	for _, g := range second[:4] {
		f.fares("r1", sha, g, rollout.RolledBack)
	}
	f.says(10, "the roll-out was halted, serial 3", append([]string{"fleet", "reconcile"}, deploy...)...)
	f.says(10, "HALTED", "fleet", "status")
	f.says(10, "the roll-out is halted", append([]string{"fleet", "reconcile"}, deploy...)...)
	if st := f.status(10); !st.Halted || len(st.Bad) != 4 || st.Bad[0].Why != "because \tof it" {
		t.Errorf("%+v", st)
	}
	f.says(0, "is halted already", append([]string{"fleet", "halt"}, deploy...)...)
	f.says(2, "it would be halted again at once", append([]string{"fleet", "resume", "--yes"}, deploy...)...)
	f.says(0, "goes on: roll-out r1, serial 4", append([]string{"fleet", "resume", "--yes", "--max-failed", "90%"}, deploy...)...)
	f.says(0, "goes on: roll-out r1, serial 5", append([]string{"fleet", "resume", "--yes", "--next-wave"}, deploy...)...)
	f.says(0, "halted: roll-out r1, serial 6", append([]string{"fleet", "halt", "--why", "smells"}, deploy...)...)
	f.says(10, "halted: smells", "fleet", "status")
	f.fares("r1", sha, second[4], rollout.Halted)
	f.says(0, "does not try again in it (1 say so, 0 were under way", append([]string{"fleet", "resume", "--yes"}, deploy...)...)

	// back to the older one: below the floor of what was committed
	f.says(2, "release 1.3.0 has the secure version 1; gateways that have committed what was rolled out here before take none below 2", roll("1.3.0")...)
	mended := f.release("1.3.1", "--secure-version", "2")
	f.says(0, "in the place of roll-out r1", roll("1.3.1", "--id", "back", "--waves", "100%", "--min-reports", "1")...)
	for i := range 40 {
		f.fares("back", mended, fmt.Sprintf("gw-%03d", i), rollout.Committed)
	}
	f.says(0, "all who are there have ended: 40 committed", "fleet", "status")
	if _, releases, err := f.HistoryLast(t.Context(), f.trust(), "stable"); err != nil || len(releases) != 2 {
		t.Errorf("%q, %v (%s)", releases, err, older)
	}
	f.untouched()
}

func (f *aFleet) trust() *signed.Trust {
	f.t.Helper()
	trust, err := readTrust(f.t.Context(), []string{f.at("keys/root.1.json")})
	if err != nil {
		f.t.Fatal(err)
	}
	return trust
}

// in are the gateways of a share of a roll-out.
func (f *aFleet) in(id string, from, to int) (names []string) {
	for i := range 40 {
		name := fmt.Sprintf("gw-%03d", i)
		if c := document.Cohort(id, name); c >= from && c < to {
			names = append(names, name)
		}
	}
	return names
}

// TestDeviceKeys: with keys, what others say in a gateway's name does not count.
func TestDeviceKeys(t *testing.T) {
	f := newFleet(t, 3)
	for g, key := range f.keys {
		if _, err := central.TakeClaim(t.Context(), f.Bucket, g, "board", signed.FormatLine(key.Public()), 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	pins := f.at("pins.txt")
	f.says(0, "3 keys added", "fleet", "devices", "--pin", pins)
	f.says(0, "0 keys added", "fleet", "devices", "--pin", pins)
	sha := f.release("1.4.0")
	f.says(0, "published", append([]string{"fleet", "rollout", "1.4.0", "--id", "r1", "--waves", "100%", "--yes"}, f.key("deploy")...)...)
	honest := f.keys["gw-001"]
	delete(f.keys, "gw-001") // somebody else makes a key, and speaks for it
	f.fares("r1", sha, "gw-001", rollout.Failed)
	f.says(0, "1 reports refused: not signed by the gateway's key", "fleet", "status", "--device-keys", pins)
	f.says(0, "1 failed", "fleet", "status", "--device-keys", "")
	f.keys["gw-001"] = honest
	f.fares("r1", sha, "gw-001", rollout.Committed)
	f.says(0, "1 committed", "fleet", "status", "--device-keys", pins)
	f.says(0, "gw-002", "fleet", "devices", "--device-keys", pins)
	for text, says := range map[string]string{"gw-1": "want GATEWAY", "gw 1 ed25519:x": "ed25519", "\x1b ed25519:" + strings.Repeat("A", 43): "pins.txt:1"} {
		if err := os.WriteFile(f.at("pins.txt"), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.says(2, says, "fleet", "devices", "--device-keys", pins)
	}
}

func TestCommands(t *testing.T) {
	f := newFleet(t, 2)
	deploy := f.key("deploy")
	do := func(args ...string) []string {
		return append(append(append([]string{"fleet"}, args...), "--yes"), deploy...)
	}
	f.says(2, "which gateways?", do("command", "restart")...)
	f.says(2, "which gateways?", do("command", "restart", "gw-000", "--all")...)
	f.says(2, "do: \"explode\"", do("command", "explode", "gw-000")...)
	f.says(2, "config: apply needs it", do("command", "apply", "gw-000")...)
	f.says(2, "--board goes with --all", do("command", "restart", "gw-000", "--board", "rpi4")...)
	f.says(0, "published: first for device/gw-000, serial 1", do("savepoint", "gw-000", "gw-001", "--id", "first", "--upload")...)
	f.says(0, "for commands/stable, serial 1", do("command", "restart", "--all", "--board", "rpi4")...)
	b, err := (&document.Result{Gateway: "gw-000", Scope: "device/gw-000", Serial: 1, ID: "first", Do: "savepoint", Result: "done", Detail: "three\nlines", AtMs: 1, Files: []string{depot.File("gw-000", "savepoints/a.savepoint")}}).Encode()
	f.put(depot.Result("gw-000", "device/gw-000", 1, 1), signed.TypeResult, "gw-000", b, err)
	f.says(0, "savepoint (first)  done    three lines", "fleet", "results", "gw-000")
	f.says(0, "  _fleet/report/gw-000/file/savepoints/a.savepoint", "fleet", "results", "gw-000")
	f.put(depot.Result("gw-001", "device/gw-001", 1, 1), signed.TypeResult, "gw-000", b, err)
	f.says(0, "it speaks for somebody else", "fleet", "results", "gw-001")
	f.says(0, "serial 2", do("command", "diagnostics", "gw-000", "--upload")...)
	_, list, err := f.CurrentCommands(t.Context(), f.trust(), "device/gw-000")
	if err != nil || len(list.List) != 1 || list.List[0].Do != "diagnostics" || list.List[0].ExpiresMs == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	// two sign: written, signed by another, published
	f.says(0, "", do("command", "stop", "gw-001", "--to", f.at("stop.json"))...)
	f.says(0, "", "fleet", "publish", f.at("stop.json"), "--yes")
	f.says(1, "nothing was published: serial 2 behind 2", "fleet", "publish", f.at("stop.json"), "--yes")
	if err := f.Bucket.Put(t.Context(), depot.DeviceCommands("gw-001"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	f.says(1, "what lies there does not count", do("command", "restart", "gw-001")...)
	f.untouched()
}

func TestFleetUsage(t *testing.T) {
	f := newFleet(t, 0)
	f.want(2, "the config has no central store", "fleet", "status", "--root", f.at("keys/root.1.json"))
	f.want(2, "want file:///PATH or s3://", "fleet", "status", "--root", f.at("keys/root.1.json"), "--store", "ftp://x")
	f.want(2, "no such file", "fleet", "status", "--root", f.at("none"), "--store", "file:///tmp/none")
	f.says(2, "--channel", "fleet", "status", "--channel", " ")
	f.says(0, "root 1 is published", "fleet", "root", f.at("keys/root.1.json"))
	f.want(0, "root 2", "keys", "rotate", "--root", f.at("keys/root.1.json"), "--to", f.at("root.2.json"), "--remove", "deploy=deploy-1", "--add", "deploy="+f.fresh("next"), "--key", f.at("keys/root-1.key"))
	f.says(0, "root 2 is published", "fleet", "root", f.at("root.2.json"))
	f.release("1.4.0")
	f.says(2, "has no role", append([]string{"fleet", "rollout", "1.4.0", "--yes"}, f.key("deploy")...)...)
	f.says(0, "published", "fleet", "rollout", "1.4.0", "--yes", "--key", f.at("next.key"))
	if err := f.Bucket.Put(t.Context(), depot.Root(3), []byte("x")); err != nil {
		t.Fatal(err)
	}
	f.says(0, "_fleet/roots/3.json in the store is no root document that counts", "fleet", "status")
}
