// Package flash measures what reaches a block device. Its tests need root, loop devices and mkfs.ext4; without them they are skipped.
package flash

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// snapshotDevice mounts a fresh ext4 on a loop device and gives its directory and a counter of the bytes written to the device.
func snapshotDevice(t *testing.T) (dir string, written func() uint64) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a loop device")
	}
	tmp := t.TempDir()
	img, mnt := filepath.Join(tmp, "img"), filepath.Join(tmp, "mnt")
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, 128<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mnt, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Skipf("%s: %v: %s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", img)
	dev := run("losetup", "--find", "--show", img)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", dev).Run() })
	run("mount", "-t", "ext4", dev, mnt)
	t.Cleanup(func() { _ = unix.Unmount(mnt, 0) })
	return mnt, func() uint64 {
		unix.Sync()
		b, err := os.ReadFile("/sys/block/" + filepath.Base(dev) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		var f [7]uint64
		if _, err := fmt.Sscan(string(b), &f[0], &f[1], &f[2], &f[3], &f[4], &f[5], &f[6]); err != nil {
			t.Fatal(err)
		}
		return f[6] * 512
	}
}

// snapshotEngine freezes one table at a barrier.
type snapshotEngine struct {
	table *state.Table
	c     *snapshot.Coordinator
	pos   pipeline.Position
}

func (e *snapshotEngine) Inject(_ context.Context, id uint64) error {
	e.table.Lock()
	defer e.table.Unlock()
	e.c.Deliver(pipeline.TaskSnapshot{
		Task: "t", Barrier: pipeline.Barrier{ID: id, Position: e.pos},
		Parts: []pipeline.StatePart{{UID: "s", Spec: e.table.Spec(), Frozen: e.table.Freeze()}},
	})
	return nil
}

// TestSnapshotDeviceBytes: 10,000 keys, 1 % dirty, 200 checkpoints; device bytes per dirty byte, bases, manifests and ext4's
// own writes included. Store log is held to 2.5; store bbolt is only told.
func TestSnapshotDeviceBytes(t *testing.T) {
	for _, kind := range []string{"log", "bbolt"} {
		t.Run(kind, func(t *testing.T) {
			dir, written := snapshotDevice(t)
			var s snapshot.Store
			var err error
			if kind == "log" {
				s, err = snapshot.OpenLog(t.Context(), snapshot.LogOptions{
					FS: disk.OS, Dir: filepath.Join(dir, "ck"), Catalog: filepath.Join(dir, "catalog.bolt"), Logger: slog.New(slog.DiscardHandler),
				})
			} else {
				s, err = snapshot.OpenBolt(snapshot.BoltOptions{Path: filepath.Join(dir, "ck.bolt")})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			per, m := snapshotLoad(t, s, written)
			t.Logf("%.2f device bytes per dirty byte, %d merges", per, m.Rebases)
			if kind == "log" && per > 2.5 {
				t.Errorf("%.2f device bytes per dirty byte, allowed are 2.5", per)
			}
		})
	}
}

func snapshotLoad(t *testing.T, s snapshot.Store, written func() uint64) (perByte float64, m snapshot.Metrics) {
	t.Helper()
	const keys, dirty, checkpoints, entry = 10000, 100, 200, 16 + 100
	table := state.New(state.Spec{Name: "acc", Kind: state.Value, Type: "x", Version: 1})
	e := &snapshotEngine{table: table}
	cfg := snapshot.Default()
	cfg.Interval = 0
	c, err := snapshot.NewCoordinator(snapshot.Options{Config: cfg, Store: s, Engine: e, Tasks: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	e.c = c
	if _, err := c.CommitInitial(t.Context(), snapshot.Initial{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	rnd := rand.New(rand.NewPCG(1, 2))
	step := func(n int, key func(i int) uint64) {
		table.Lock()
		for i := range n {
			k := key(i)
			b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k*0x9e3779b97f4a7c15), k)
			val := make([]byte, 100) // about half compressible
			for j := 0; j < 50; j += 8 {
				binary.LittleEndian.PutUint64(val[j:], rnd.Uint64())
			}
			if err := table.Put(b, val); err != nil {
				t.Fatal(err)
			}
		}
		table.Unlock()
		e.pos++
		c.Records(n)
		if _, err := c.Trigger(ctx); err != nil {
			t.Fatal(err)
		}
	}
	step(keys, func(i int) uint64 { return uint64(i) })
	step(dirty, func(int) uint64 { return rnd.Uint64N(keys) })
	before := written()
	for range checkpoints {
		step(dirty, func(int) uint64 { return rnd.Uint64N(keys) })
	}
	bytes := written() - before
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return float64(bytes) / (checkpoints * dirty * entry), c.Metrics()
}
