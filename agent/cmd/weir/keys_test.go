//go:build !nocentral

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// aReleaseFile writes the document of a release.
func (c *cli) aReleaseFile(fleet string) string {
	c.t.Helper()
	sha := strings.Repeat("ab", 32)
	r := &document.Release{Fleet: fleet, Version: "1.2.3", CreatedMs: 1_780_000_000_000, Artifacts: []document.Artifact{{Backend: "self", Arch: "arm64", Bytes: 1, SHA256: sha, ChunkBytes: document.ChunkBytesDefault, Chunks: []string{sha}}}}
	b, err := r.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(c.dir, fleet+".payload")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// TestKeysLife: a fleet begins, several holders sign one after the other, a key is replaced, documents are verified against the chain.
func TestKeysLife(t *testing.T) {
	c := newCLI(t, cliConfig)
	in := func(name string) string { return filepath.Join(c.dir, "keys", name) }
	c.want(0, "2 of 2 signatures of the role root in root 1", "keys", "init", filepath.Join(c.dir, "keys"), "--fleet", "plant", "--make", "root=2", "--make", "deploy=2", "--threshold", "deploy=2")
	for _, name := range []string{"root-1", "root-2", "release-1", "deploy-1", "deploy-2"} {
		if info, err := os.Stat(in(name + ".key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	c.want(0, "verified", "keys", "verify", in("root.1.json"))
	c.want(0, "compare its sha256", "keys", "verify", in("root.1.json"))
	c.want(2, "is there already; nothing was written", "keys", "init", filepath.Join(c.dir, "keys"), "--fleet", "plant")

	release := filepath.Join(c.dir, "release.json")
	c.want(2, "has the role deploy; a document of the type release needs the role release", "keys", "sign", c.aReleaseFile("plant"), "--type", "release", "--to", release, "--root", in("root.1.json"), "--key", in("deploy-1.key"))
	c.want(0, "release 1.2.3", "keys", "sign", c.aReleaseFile("plant"), "--type", "release", "--to", release, "--root", in("root.1.json"), "--key", in("release-1.key"))
	c.want(0, "verified", "keys", "verify", release, "--root", in("root.1.json"))
	c.want(1, "no --root", "keys", "verify", release)
	other := filepath.Join(c.dir, "other.json")
	c.want(0, "release 1.2.3", "keys", "sign", c.aReleaseFile("other"), "--type", "release", "--to", other, "--root", in("root.1.json"), "--key", in("release-1.key"))
	c.want(1, `it is of the fleet "other", the root is of "plant"`, "keys", "verify", other, "--root", in("root.1.json"))

	c.want(0, "give this one away", "keys", "new", in("carol.key"))
	second := in("root.2.json")
	c.want(0, "1 of 2 signatures of the role root in root 1: 1 missing", "keys", "rotate", "--root", in("root.1.json"), "--to", second, "--remove", "root=root-2", "--add", "root="+in("carol.pub"),
		"--floor", "deploy=40", "--key", in("root-1.key"))
	c.want(1, "too few signatures: 1 of 2 that the role root needs in root 1", "keys", "verify", second, "--root", in("root.1.json"))
	c.want(0, "2 of 2 signatures of the role root in root 2", "keys", "sign", second, "--root", in("root.1.json"), "--key", in("carol.key"))
	c.want(1, "too few signatures", "keys", "verify", second, "--root", in("root.1.json"))
	c.want(0, "3 of 3", "keys", "init", filepath.Join(c.dir, "three"), "--fleet", "x", "--make", "root=3", "--threshold", "root=3")
	c.want(0, "carol (", "keys", "sign", second, "--root", in("root.1.json"), "--key", in("root-2.key"))
	c.want(0, "verified", "keys", "verify", second, "--root", in("root.1.json"))
	c.want(0, "verified", "keys", "verify", release, "--root", in("root.1.json"), "--root", second)
	c.want(1, "those between must come first", "keys", "verify", c.third(second, in), "--root", in("root.1.json"))

	var i inspection
	out := c.want(0, "", "keys", "verify", second, "--root", in("root.1.json"), "-o", "json")
	if err := json.Unmarshal([]byte(out), &i); err != nil || !i.Verified || i.Type != "root" || len(i.Signatures) != 3 || len(i.Counts) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	c.want(0, "days old: see who still has its keys", "keys", "verify", second, "--root", in("root.1.json"), "--old-after", "0s")
	c.untouched()
}

// third makes root 3 from root 2, signed by those of root 1 who are left, and carol.
func (c *cli) third(second string, in func(string) string) string {
	to := in("root.3.json")
	c.want(0, "2 of 2 signatures of the role root in root 3", "keys", "rotate", "--root", second, "--to", to, "--key", in("root-1.key"), "--key", in("carol.key"))
	b, err := os.ReadFile(to)
	if err != nil {
		c.t.Fatal(err)
	}
	e, err := signed.Parse(b)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := signed.ReadPrivate(in("root-2.key"))
	if err == nil {
		err = e.Add(c.t.Context(), signed.KeySigner(key)) // so that it is not for too few signatures that it is refused
	}
	if err == nil {
		cmd := &cobra.Command{}
		cmd.SetContext(c.t.Context())
		err = writeDocument(cmd, to, e)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return to
}

// TestKeysOfOthers: who holds a key makes it; a command signs for one that is in no file.
func TestKeysOfOthers(t *testing.T) {
	c := newCLI(t, cliConfig)
	at := func(name string) string { return filepath.Join(c.dir, name) }
	for _, name := range []string{"alice", "bob", "hsm"} {
		c.want(0, name+".pub", "keys", "new", at(name+".key"))
	}
	c.want(0, "0 of 2 signatures of the role root in root 1: 2 missing", "keys", "init", at("k"), "--fleet", "plant", "--add", "root="+at("alice.pub"), "--add", "root="+at("bob.pub"), "--add", "deploy="+at("hsm.pub"))
	if _, err := os.Stat(at("k/root-1.key")); !os.IsNotExist(err) {
		t.Errorf("a root key was made: %v", err)
	}
	c.want(1, "too few signatures: 0 of 2", "keys", "verify", at("k/root.1.json"))
	c.want(0, "1 missing", "keys", "sign", at("k/root.1.json"), "--key", at("alice.key"))
	c.want(0, "2 of 2", "keys", "sign", at("k/root.1.json"), "--key", at("bob.key"))
	c.want(0, "verified", "keys", "verify", at("k/root.1.json"))
	release := c.aReleaseFile("plant")
	c.want(1, "the card is not in", "keys", "sign", release, "--type", "release", "--to", at("r.json"), "--sign-with", "echo the card is not in >&2; exit 1", "--public", at("k/release-1.pub"))
	if _, err := os.Stat(at("r.json")); !os.IsNotExist(err) {
		t.Errorf("written though nobody signed: %v", err)
	}
	// all deploy keys replaced: gateways forget the old serials
	c.want(0, "2 of 2", "keys", "rotate", "--root", at("k/root.1.json"), "--to", at("root.2.json"), "--remove", "deploy=hsm", "--add", "deploy="+c.fresh("new"), "--key", at("alice.key"), "--key", at("bob.key"))
	b, err := os.ReadFile(at("root.2.json"))
	if err != nil {
		t.Fatal(err)
	}
	if tr, err := signed.NewTrust(b); err != nil || tr.Since(signed.RoleDeploy) != 2 || tr.Since(signed.RoleRelease) != 1 {
		t.Errorf("%v", err)
	}
}

func (c *cli) fresh(name string) string {
	c.want(0, name, "keys", "new", filepath.Join(c.dir, name+".key"))
	return filepath.Join(c.dir, name+".pub")
}

func TestKeysUsage(t *testing.T) {
	c := newCLI(t, cliConfig)
	at := func(name string) string { return filepath.Join(c.dir, name) }
	c.want(2, "--fleet is missing", "keys", "init", at("k"))
	c.want(2, "--help", "keys", "init")
	c.want(2, "want ROLE=VALUE", "keys", "init", at("k"), "--fleet", "plant", "--make", "admin=1")
	c.want(2, "want a number", "keys", "init", at("k"), "--fleet", "plant", "--make", "root=x")
	c.want(2, "role root: 4 of 3 keys", "keys", "init", at("k"), "--fleet", "plant", "--make", "root=3", "--threshold", "root=4")
	c.want(2, "role deploy: 1 of 0 keys", "keys", "init", at("k"), "--fleet", "plant", "--make", "deploy=0")
	c.want(2, "want 1 to 32 keys", "keys", "init", at("k"), "--fleet", "plant", "--make", "root=1000000000")
	c.want(2, "do not print", "keys", "init", at("k"), "--fleet", "pla\x1bnt")
	c.want(2, "no such file", "keys", "init", at("k"), "--fleet", "plant", "--add", "root="+at("none.pub"))
	if _, err := os.Stat(at("k")); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	c.want(0, "verified", "keys", "verify", c.begin("k"))
	root := at("k/root.1.json")
	c.want(2, "it is a private key, which nobody but its holder should have", "keys", "init", at("l"), "--fleet", "plant", "--add", "root="+at("k/root-1.key"))
	c.want(2, "--sign-with and --public", "keys", "sign", root, "--sign-with", "x")
	c.want(2, "no key: give --key", "keys", "sign", root)
	c.want(2, "has no role", "keys", "sign", root, "--key", c.key("stranger"))
	c.want(2, "--type needs --to", "keys", "sign", root, "--type", "release", "--key", at("k/root-1.key"))
	c.want(2, `--type "state"`, "keys", "sign", root, "--type", "state", "--to", at("x"), "--key", at("k/root-1.key"))
	c.want(1, "not a document of this form", "keys", "sign", c.config, "--key", at("k/root-1.key"))
	c.want(1, "not a document of this form", "keys", "sign", c.config, "--type", "release", "--to", at("x"), "--key", at("k/root-1.key"))
	c.want(2, "--root and --to", "keys", "rotate")
	c.want(2, "0 keys of that role have this name or id; it has root-1 (", "keys", "rotate", "--root", root, "--to", at("x"), "--remove", "root=bob")
	c.want(2, "role root: 1 of 0 keys are to sign", "keys", "rotate", "--root", root, "--to", at("x"), "--remove", "root=root-1")
	c.want(2, "has the role release already", "keys", "rotate", "--root", root, "--to", at("x"), "--add", "deploy="+at("k/release-1.pub"))
	c.want(2, "is there already", "keys", "rotate", "--root", root, "--to", root)
	c.want(2, "no such file", "keys", "verify", at("none"))
	if err := os.Chmod(at("k/root-1.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.want(2, "chmod 600", "keys", "sign", root, "--key", at("k/root-1.key"))
	c.untouched()
}

func (c *cli) begin(name string) string {
	dir := filepath.Join(c.dir, name)
	c.want(0, "root 1", "keys", "init", dir, "--fleet", "plant")
	return filepath.Join(dir, "root.1.json")
}

func (c *cli) key(name string) string {
	c.fresh(name)
	return filepath.Join(c.dir, name+".key")
}
