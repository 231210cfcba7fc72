// Package deb holds the Debian package to its word where dpkg is not needed: its versions sort, two builds are equal.
package deb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
)

// TestVersionsSort: in the order of dpkg, releases, what comes before them, behind them, and builds without a tag.
func TestVersionsSort(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("NOT TESTED HERE: dpkg is not installed")
	}
	before := ""
	for _, c := range []struct{ describe, count, want string }{
		{"abcdef012345", "9", "0~9.gabcdef012345"},
		{"6ff7766f337e", "745", "0~745.g6ff7766f337e"},
		{"6ff7766f337e-dirty", "745", "0~745.g6ff7766f337e+dirty"},
		{"v0.1.0", "800", "0.1.0"},
		{"v1.2.3-rc.1", "900", "1.2.3~rc.1"},
		{"v1.2.3-rc.1-3-gabc123", "903", "1.2.3~rc.1+3.gabc123"},
		{"v1.2.3", "910", "1.2.3"},
		{"v1.2.3-9-gabcdef012345", "919", "1.2.3+9.gabcdef012345"},
		{"v1.2.3-14-gabcdef012345", "924", "1.2.3+14.gabcdef012345"},
		{"v1.2.3-14-gabcdef012345-dirty", "924", "1.2.3+14.gabcdef012345+dirty"},
		{"v1.2.4", "930", "1.2.4"},
	} {
		out, err := exec.Command("sh", "version.sh", c.describe, c.count).Output()
		got := strings.TrimSpace(string(out))
		if err != nil || got != c.want {
			t.Fatalf("%s: %q, want %q (%v)", c.describe, got, c.want, err)
		}
		if before != "" && exec.Command(dpkg, "--compare-versions", before, "lt", got).Run() != nil {
			t.Errorf("%s does not sort below %s", before, got)
		}
		before = got
	}
}

// TestPackageIsReproducible: another umask, time zone and time make the same bytes. The program in it is any: that programs are reproducible, make reproducible shows.
func TestPackageIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package twice")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "weir")
	if err := rig.BuildWeir(program); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-s", "-C", root, "nfpm").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	build := func(umask, zone string) []byte {
		t.Helper()
		dir := t.TempDir()
		cmd := exec.Command("sh", "-c", "umask "+umask+"; exec packaging/deb/build.sh amd64 "+program+" "+program+" "+program+" "+dir)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "DEB_VERSION=1.0", "TZ="+zone)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, "weir_1.0_amd64.deb"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if a, b := build("022", "UTC"), build("077", "Pacific/Chatham"); !bytes.Equal(a, b) {
		t.Errorf("%d and %d bytes, which differ", len(a), len(b))
	}
}
