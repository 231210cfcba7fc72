//go:build !nos3 && !nocentral

package restore_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// slowLine is a line of 10 Mbit/s with a way of 100 ms there and back. Making up for 100 ms is 1 % of what is measured.
var slowLine = rig.Link{BytesPerSecond: 10_000_000 / 8, RoundTrip: 100 * time.Millisecond, Behind: 100 * time.Millisecond}

// TestRestoreFromCentralAtLineRate: a million keys come from an S3 server over a line, in real time, and are made a checkpoint. Told is what part of the line's rate that has, beside what one plain
// stream of as many bytes gets of the same line just before: a machine that is busy slows both.
func TestRestoreFromCentralAtLineRate(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("a measurement; make bench runs it")
	}
	far, err := rig.StartS3(t.TempDir(), "fleet")
	if errors.Is(err, rig.ErrNoTool) {
		t.Skipf("NOT TESTED against an S3 server: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Kill() })
	key := upload(t, open(t, far, far.Addr))

	line := lineTo(t, far.Addr)
	dir := t.TempDir()
	var first, arrived time.Time // the first piece, and the last
	f := &central.Fetcher{Gateway: "bench", Bucket: open(t, far, line.Addr()), Trust: central.Trust{key}, Told: func(done, all uint64) {
		if arrived = time.Now(); first.IsZero() {
			first = arrived
		}
	}}
	file := filepath.Join(dir, "fetched.savepoint")
	box, store := openBox(t, dir), openStore(t, filepath.Join(dir, "checkpoints"))
	defer store.Close()
	used, began := cpu(), time.Now()
	report, err := offsite.Fetch(t.Context(), f, central.UUID(benchID), disk.OS, file)
	if err != nil {
		t.Fatal(err)
	}
	fetched := time.Since(began)
	saved, err := restore.ReadSavepoint(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	if _, err := savepoints.Restore(t.Context(), saved, savepoints.Into{
		Store: store, Outbox: box, Pipeline: benchID, PlanHash: [32]byte(saved.Head.PlanHash), Generation: 1, Take: func(uid string) (string, bool) { return uid, true },
	}); err != nil {
		t.Fatal(err)
	}
	whole, used := time.Since(began), cpu()-used
	if report.Summary.Entries != keys || len(report.PassedOver) > 0 {
		t.Fatalf("%+v", report)
	}
	up, down := line.Passed()
	plain := plainStream(t, down)
	share := func(took time.Duration) float64 {
		return float64(down) / took.Seconds() / float64(slowLine.BytesPerSecond)
	}
	t.Logf("%d keys, %d bytes of objects, %d down and %d up on the line", keys, report.Bytes, down, up)
	for _, step := range []struct {
		what string
		took time.Duration
	}{{"one plain stream of as many bytes", plain}, {"all pieces are here", arrived.Sub(began)}, {"the savepoint is made", fetched}, {"the checkpoint is made", whole}} {
		t.Logf("%-34s %6.2f s = %.3f of the line", step.what, step.took.Seconds(), share(step.took))
	}
	t.Logf("first piece after %s; %.2f CPU s, the line's own among them", first.Sub(began).Round(time.Millisecond), used)
}

func lineTo(t *testing.T, addr string) *rig.Proxy {
	t.Helper()
	line, err := rig.NewProxy(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	line.Slow(slowLine)
	return line
}

func open(t *testing.T, far *rig.S3, addr string) bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenS3(&bucket.S3{Endpoint: "http://" + addr, Bucket: far.Bucket, CredentialsFile: far.CredentialsFile, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// upload brings a checkpoint of a million keys into the bucket, as an agent does, and gives the key that it is signed with.
func upload(t *testing.T, b bucket.Bucket) ed25519.PublicKey {
	t.Helper()
	dir, ctx := t.TempDir(), t.Context()
	graph, path := savedMillion(t, dir)
	box, store := openBox(t, dir), openStore(t, filepath.Join(dir, "checkpoints"))
	defer store.Close()
	saved, err := restore.ReadSavepoint(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	m, err := savepoints.Restore(ctx, saved, savepoints.Into{
		Store: store, Outbox: box, Pipeline: benchID, PlanHash: graph.Hash, Generation: 1, Take: func(uid string) (string, bool) { return uid, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := central.Default()
	c.Gateway, c.Bucket, c.Key = "bench", b, private
	up, err := central.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spool, err := offsite.OpenSpool(disk.OS, filepath.Join(dir, "central"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := up.Add(central.UUID(benchID), "p", spool)
	if err != nil {
		t.Fatal(err)
	}
	took, err := offsite.Take(ctx, p, offsite.Running{
		Hold: func(context.Context) (snapshot.Checkpoint, func(), error) {
			return snapshot.Checkpoint{ID: m.ID, Position: m.Position, Manifest: m}, func() {}, nil
		},
		KeepFrom: func(uint64) {}, Store: store, Outbox: box, Graph: graph, About: savepoint.Head{Gateway: "bench", Pipeline: "p", Journal: "j", Major: 1},
	})
	if err != nil || !took {
		t.Fatal(took, err)
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { up.Run(ctx) })
	defer running.Wait()
	defer stop()
	for end := time.Now().Add(5 * time.Minute); p.Status(time.Now()).Checkpoint != m.ID; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", p.Status(time.Now()))
		}
	}
	return public
}

// plainStream is how long the line takes for n bytes of one connection that does nothing else.
func plainStream(t *testing.T, n int64) time.Duration {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		defer c.Close()
		_, _ = io.CopyN(c, zeros{}, n) // what is short shows at the other end
	})
	defer serving.Wait()
	defer l.Close()
	began := time.Now()
	c, err := net.Dial("tcp", lineTo(t, l.Addr().String()).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.Copy(io.Discard, c); err != nil || got != n {
		t.Fatalf("%d of %d bytes, %v", got, n, err)
	}
	return time.Since(began)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
