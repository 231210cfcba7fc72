package portable

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// builds is the table of docs/builds.md.
var builds = regexp.MustCompile("(?m)^\\| `weir-linux-([a-z0-9-]+)` \\|.*\\| ([0-9.]+) MB \\| ([0-9]+ MB)? *\\|$")

// sizeSlack is how far the table may be off before it has to be written again.
const sizeSlack = 0.05

// TestTheTableOfSizes holds docs/builds.md to what is built. `make sizes` keeps the limits.
func TestTheTableOfSizes(t *testing.T) {
	needMachines(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "builds.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(machines["arm64"].weir)
	if _, err := makeOf("cross-arm64-nopebble", "DIR="+dir); err != nil {
		t.Fatal(err)
	}
	rows := builds.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 4 {
		t.Errorf("%d builds in the table, want 4", len(rows))
	}
	for _, row := range rows {
		info, err := os.Stat(filepath.Join(dir, "weir-linux-"+row[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		size, said := float64(info.Size())/1e6, must(strconv.ParseFloat(row[2], 64))
		if math.Abs(size/said-1) > sizeSlack {
			t.Errorf("docs/builds.md says %.1f MB of weir-linux-%s, which has %.1f", said, row[1], size)
		}
		limit, _, _ := strings.Cut(row[3], " ")
		if most, err := strconv.Atoi(limit); err == nil && size > float64(most) {
			t.Errorf("weir-linux-%s has %.2f MB, %d at most", row[1], size, most)
		}
	}
	said := helperSize.FindSubmatch(page)
	info, err := os.Stat(filepath.Join(dir, "weir-boot-linux-arm64"))
	if err != nil || said == nil {
		t.Fatalf("weir-boot-linux-arm64: docs/builds.md %q, %v", said, err)
	}
	size, most := float64(info.Size())/1e6, must(strconv.ParseFloat(string(said[2]), 64))
	if was := must(strconv.ParseFloat(string(said[1]), 64)); math.Abs(size/was-1) > sizeSlack || size > most {
		t.Errorf("docs/builds.md says %s MB of weir-boot-linux-arm64, %s at most; it has %.2f", said[1], said[2], size)
	}
}

// helperSize is the line of docs/builds.md on weir-boot.
var helperSize = regexp.MustCompile("`weir-boot-linux-arm64` and so on, ([0-9.]+) MB, ([0-9.]+) MB at most")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestBuildsAreReproducible: the sources in another directory, with another cache, time zone, language and umask, become the same bytes. It compiles everything twice:
// `make reproducible`.
func TestBuildsAreReproducible(t *testing.T) {
	arch := os.Getenv("WEIR_REPRODUCE")
	if arch == "" {
		t.Skip("compiles everything anew: make reproducible")
	}
	version := strings.TrimSpace(run1(t, "git", "-C", root, "describe", "--always", "--abbrev=12"))
	pinned := []string{"VERSION=" + version, "BUILD_TIME=" + strings.TrimSpace(run1(t, "git", "-C", root, "log", "-1", "--format=%ct"))}
	here, other := t.TempDir(), filepath.Join(t.TempDir(), "a", "longer", "way", "to", "the", "sources")
	if _, err := makeOf(append(pinned, "cross-"+arch, "DIR="+here)...); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(run1(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		copyFile(t, filepath.Join(root, name), filepath.Join(other, name))
	}
	cache := t.TempDir()
	cmd := exec.Command("sh", append([]string{"-c", `umask 077 && exec make "$@"`, "make", "-s", "-C", other, "cross-" + arch, "DIR=" + other + "/out"}, pinned...)...)
	cmd.Env = append(os.Environ(), "GOCACHE="+cache, "TZ=Pacific/Chatham", "LC_ALL=C", "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"weir-linux-" + arch, "weir-boot-linux-" + strings.TrimSuffix(arch, "-nopebble")} {
		a, b := must(os.ReadFile(filepath.Join(here, name))), must(os.ReadFile(filepath.Join(other, "out", name)))
		if !bytes.Equal(a, b) {
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			t.Errorf("%s: %d and %d bytes, which differ from byte %d on: %q, %q", name, len(a), len(b), at, a[at:min(at+60, len(a))], b[at:min(at+60, len(b))])
		}
		if bytes.Contains(b, []byte(filepath.Base(filepath.Dir(other))+"/sources")) {
			t.Errorf("%s names the directory in which it was built", name)
		}
		t.Logf("%s: %d bytes, version %s", name, len(a), version)
	}
}

func run1(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err))
	}
	return string(out)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // removed, and not yet so in the index
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
