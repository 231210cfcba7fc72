package flash

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk"
)

// TestKeepIsToldOnce: a record that cannot be written is tried again at each look, and is a line in the log once.
func TestKeepIsToldOnce(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(t.TempDir(), "gone")
	m, err := Open(Options{System: System{Sys: filepath.Join(root, "sys"), Proc: filepath.Join(root, "proc")}, FS: disk.OS, File: filepath.Join(dir, File), Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	k := &Keeper{meter: m, log: slog.New(slog.NewTextHandler(&lines, nil))}
	tell := func() int { return strings.Count(lines.String(), "is not kept") }
	for range 3 {
		k.keep()
	}
	if tell() != 1 {
		t.Errorf("told %d times: %s", tell(), &lines)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if !k.keep() {
		t.Errorf("not kept: %s", &lines)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if k.keep(); tell() != 2 {
		t.Errorf("told %d times in all: %s", tell(), &lines)
	}
}

// TestBaseThatChangesIsNoStretch: a pipeline with another interval comes or goes while nothing is stretched; what is stretched stays.
func TestBaseThatChangesIsNoStretch(t *testing.T) {
	was := Setting{Linger: time.Millisecond, Interval: 10 * time.Second}
	for _, is := range []time.Duration{5 * time.Second, 20 * time.Second, 0} {
		base := Setting{Linger: time.Millisecond, Interval: is}
		if got := follow(was, was, base); got != base {
			t.Errorf("%+v, want %+v", got, base)
		}
		stretched := Setting{Linger: 80 * time.Millisecond, Interval: 40 * time.Second}
		if got := follow(stretched, was, base); got != stretched {
			t.Errorf("%+v, want %+v", got, stretched)
		}
	}
}

// TestRoomFor: stretched checkpoints do not fill the journal.
func TestRoomFor(t *testing.T) {
	for _, c := range []struct {
		max      int64
		retained int
		rate     float64
		want     time.Duration
	}{
		{1 << 30, 3, 0, math.MaxInt64},
		{1 << 30, 3, 1e5, 512 * time.Second},
		{1 << 30, 3, 1e9, time.Second},
		{64 << 20, 1, 1e3, 16384 * time.Second},
	} {
		if got := roomFor(c.max, c.retained, c.rate); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestShares: a kernel that counts whole folios as weir's does not hide that the journal is what costs.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		device, own, journal  uint64
		wantDevice, wantOfOwn float64
	}{
		{1000, 500, 250, 0.5, 0.5},
		{1000, 192_000, 900, 1, 0.9}, // as measured on Linux 6.18: 139 KB were 26.7 MB
		{1000, 10, 900, 0.01, 1},
		{1000, 0, 0, 0, 1},
	} {
		if d, o := shares(c.device, c.own, c.journal); d != c.wantDevice || o != c.wantOfOwn {
			t.Errorf("%+v: %v, %v", c, d, o)
		}
	}
}

// TestGovernorWithLargeFolios: the journal's linger is stretched also where the kernel counts too much.
func TestGovernorWithLargeFolios(t *testing.T) {
	l := Limits{Base: Setting{Linger: 5 * time.Millisecond, Interval: 10 * time.Second}, Most: Setting{Linger: time.Second, Interval: 5 * time.Minute}}
	f := Facts{Budget: 1e9, Left: Day, Rate: 1e5}
	f.Own, f.Journal = shares(60e6, 12e9, 50e6)
	if v := l.Decide(l.Base, f); v.Linger <= l.Base.Linger {
		t.Errorf("%+v", v)
	}
	// Planted: the shares as the kernel's count has them.
	if f.Journal = 50e6 / 12e9; l.Decide(l.Base, f).Linger > l.Base.Linger {
		t.Error("the planted fault is not found")
	}
}
