package boot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// copied is the helper's directory as a copy has it that followed the links.
func copied(g *gateway) {
	link := filepath.Join(g.p.Dir, linkFile)
	b, err := os.ReadFile(filepath.Join(link, programFile))
	g.must(err)
	g.must(errors.Join(os.Remove(link), os.Mkdir(link, 0o755), os.WriteFile(filepath.Join(link, programFile), b, 0o755)))
}

// TestWhatLiesInTheWay: something else in the place of each file and link of the helper's own. A start always ends with a program that is linked, and the next upgrade is installed and linked.
func TestWhatLiesInTheWay(t *testing.T) {
	names := []string{linkFile, linkFile + ".tmp", heldFile, heldFile + ".tmp", rootFile, rootFile + ".tmp", floorFile, floorFile + ".tmp", floorCopy, "slots/a/" + aboutFile, "slots/a/" + aboutCopy, "slots/b/" + aboutFile, "slots/b/" + aboutCopy, "slots/b/" + aboutFile + ".tmp", "slots/b/" + programFile}
	kinds := map[string]func(name string) error{
		"directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "x", "y"), 0o755) },
		"pipe":      func(name string) error { return unix.Mkfifo(name, 0o600) },
		"loop":      func(name string) error { return os.Symlink(name, name) },
		"dangling":  func(name string) error { return os.Symlink("/gone/for/good", name) },
		"empty":     func(name string) error { return os.WriteFile(name, nil, 0o644) },
	}
	for _, name := range names {
		for kind, put := range kinds {
			g := newGateway(t)
			first, _ := g.installed("one", nil)
			at := filepath.Join(g.p.Dir, name)
			g.must(errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755), put(at)))
			for range 2 {
				if got := g.start(); got != "one" && got != "factory" {
					t.Errorf("%s in place of %s: %q runs: %q", kind, name, got, g.said)
				}
				g.reboot()
			}
			if (name == floorFile || name == floorCopy) && kind != "dangling" {
				continue // alone and damaged it stops upgrades, and says so; with its copy: below
			}
			b := program("two", 100_000)
			second := fromFactory("switched", g.fetched(b, releaseOf(b)))
			second.Number, second.From, second.Active, second.Standby = 2, first.Target, "a", "b"
			g.save(second)
			if got := g.start(); got != "two" {
				t.Errorf("%s in place of %s: %q runs in place of an upgrade: %q", kind, name, got, g.said)
			}
		}
	}
}

// TestACopyThatFollowedLinks: the directory that was a link is set aside, and upgrades go on.
func TestACopyThatFollowedLinks(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	copied(g)
	if got := g.start(); got != "one" || g.p.linked() != "a" {
		t.Errorf("%s runs, and %q is linked: %q", got, g.p.linked(), g.said)
	}
	if _, err := os.Lstat(filepath.Join(g.p.Dir, linkFile+asideSuffix)); err != nil {
		t.Error(err)
	}
}

// TestOneOfTwoFloors: as long as one can be read the slots run, and none below the higher one.
func TestOneOfTwoFloors(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	g.must(g.p.raiseFloor(5))
	for _, damage := range []func(name string) error{os.Remove, func(name string) error { return os.WriteFile(name, nil, 0o644) }, func(name string) error { return os.WriteFile(name, []byte("4"), 0o644) }} {
		for _, name := range []string{floorFile, floorCopy} {
			g.must(g.p.raiseFloor(5))
			g.must(damage(filepath.Join(g.p.Dir, name)))
			if n, err := g.p.floor(); n != 5 || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
	}
	for _, name := range []string{floorFile, floorCopy} {
		g.must(os.WriteFile(filepath.Join(g.p.Dir, name), []byte(strings.Repeat("x", 1000)), 0o644))
	}
	if n, err := g.p.floor(); err == nil || len(err.Error()) > 500 {
		t.Errorf("%d, %v", n, err)
	}
}

// TestALinkIsNamed: whoever has moved the slots to another disk by a link is told what to do.
func TestALinkIsNamed(t *testing.T) {
	g := newGateway(t)
	other := t.TempDir()
	b := program("two", 100_000)
	g.save(fromFactory("switched", g.fetched(b, releaseOf(b))))
	g.must(errors.Join(os.MkdirAll(g.p.Dir, 0o755), os.Symlink(other, filepath.Join(g.p.Dir, slotsDir))))
	if got := g.start(); got != "factory" || !strings.Contains(strings.Join(g.said, "\n"), "mount --bind") {
		t.Errorf("%s runs: %q", got, g.said)
	}
}
