//go:build !nocentral

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/fleet/signed"
)

// TestResultsOfWhomNobodyKnows: a name that is nobody's is told as such; a gateway without results yet is told from it.
func TestResultsOfWhomNobodyKnows(t *testing.T) {
	f := newFleet(t, 1)
	f.says(1, `no gateway "gw-oo1" has ever reported here`, "fleet", "results", "gw-oo1")
	f.says(1, `no gateway "gw-oo1" has ever reported here`, "fleet", "results", "gw-oo1", "-o", "json")
	f.says(2, "gateway", "fleet", "results", "")
	f.says(0, "no result of gateway gw-000 yet; 0 commands", "fleet", "results", "gw-000")
	f.says(0, "published", append([]string{"fleet", "command", "restart", "gw-new", "gw-000", "--yes"}, f.key("deploy")...)...)
	f.says(0, `"gw-new" has never reported here; 1 commands wait for it`, "fleet", "results", "gw-new")
	f.says(0, "no result of gateway gw-000 yet; 1 commands", "fleet", "results", "gw-000")
	f.says(0, "no gateway of channel beta", "fleet", "devices", "--channel", "beta")
}

// TestFleetSaysJSON: what is published, or written for others to sign, is told in JSON where that is asked for.
func TestFleetSaysJSON(t *testing.T) {
	f := newFleet(t, 2)
	f.release("1.1")
	says := func(want string, args ...string) {
		t.Helper()
		out := f.says(0, want, append(args, "-o", "json")...)
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("weir %s says %q", strings.Join(args, " "), line)
			}
		}
	}
	deploy := f.key("deploy")
	says(`"serial":1`, append([]string{"fleet", "command", "stop", "gw-001", "--to", f.at("stop.json"), "--yes"}, deploy...)...)
	says(`"published":`, "fleet", "publish", f.at("stop.json"), "--yes")
	says(`"what":"rollout/stable"`, append([]string{"fleet", "rollout", "1.1", "--to", f.at("rollout.json"), "--yes"}, deploy...)...)
	says(`"to":`, append([]string{"release", "create", "--version", "1.2", "--artifact", f.program("weir-1.2"), "--yes", "--to", f.at("release.json")}, f.key("release")...)...)
	says(`"root":1`, "fleet", "root", f.at("keys/root.1.json"))
}

// TestReleaseWithoutAStore: a manifest for weir upgrade needs no store, and touches none.
func TestReleaseWithoutAStore(t *testing.T) {
	f := newFleet(t, 0)
	create := append([]string{"release", "create", "--version", "1.2", "--artifact", f.program("weir-1.2"), "--root", f.at("keys/root.1.json"), "--store", "none"}, f.key("release")...)
	f.want(2, "--store none goes with --to FILE", create...)
	f.want(0, "weir upgrade FILE --release release.json", append(create, "--to", f.at("release.json"))...)
	f.want(0, "good", "keys", "verify", f.at("release.json"), "--root", f.at("keys/root.1.json"))
	if _, err := os.Stat(f.at("store")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store: %v", err)
	}
	f.want(2, "want file:///PATH", "fleet", "status", "--store", "none", "--root", f.at("keys/root.1.json"))
}

// TestDocumentsThroughLinks: a link that a document is to go to stays, as /dev/stdout does.
func TestDocumentsThroughLinks(t *testing.T) {
	e, err := signed.Seal(t.Context(), signed.TypeRelease, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := errors.Join(os.WriteFile(target, []byte("before"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	c, out := &cobra.Command{}, &bytes.Buffer{}
	c.SetContext(t.Context())
	c.SetOut(out)
	if err := errors.Join(writeDocument(c, link, e), writeDocument(c, "/dev/stdout", e)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	got, rerr := os.ReadFile(target)
	if err != nil || rerr != nil || info.Mode().Type() != fs.ModeSymlink || !bytes.Equal(got, e.Bytes()) {
		t.Errorf("the link is %v, what it leads to has %q: %v, %v", info.Mode(), got, err, rerr)
	}
	if !bytes.Equal(out.Bytes(), e.Bytes()) {
		t.Errorf("stdout has %q", out)
	}
}

// TestAPipeWithoutAReader: a document waits for who is to read it, says so, and ends when it is told to.
func TestAPipeWithoutAReader(t *testing.T) {
	e, err := signed.Seal(t.Context(), signed.TypeRelease, []byte("{}"))
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err = errors.Join(err, unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, said := &cobra.Command{}, &bytes.Buffer{}
	c.SetContext(ctx)
	c.SetErr(said)
	time.AfterFunc(50*time.Millisecond, cancel) // as main does at a signal
	ended := make(chan error, 1)
	go func() { ended <- writeDocument(c, pipe, e) }() // ends with the cancel; the test waits for it
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || !strings.Contains(said.String(), "nobody reads "+pipe) {
			t.Errorf("%v, and says %q", err, said)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits on")
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // what was given up still opens it
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
