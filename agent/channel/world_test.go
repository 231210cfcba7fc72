package channel

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

const (
	fleetName, gatewayName, channelName, boardName = "plant", "gw-1", "stable", "rpi-4"
	created                                        = 1_790_000_000_000
)

// keyOf is a key that is always the same.
func keyOf(name string) signed.KeySigner {
	seed := sha256.Sum256([]byte("channel test " + name))
	return signed.KeySigner(ed25519.NewKeyFromSeed(seed[:]))
}

// world is a store and a gateway whose process may die and start again.
type world struct {
	t      *testing.T
	bucket *buckettest.Memory
	over   bucket.Bucket // in its place; nil: none
	dir    string
	acts   *fakeActs
	clock  *fakeClock
	bell   *fakeBell
	faults faults
	poll   time.Duration
	hook   func(at string)
	log    *logCount
	fs     disk.FS

	ch   *Channel
	stop func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, bucket: &buckettest.Memory{}, dir: t.TempDir(), acts: &fakeActs{version: "1"}, clock: &fakeClock{ms: created + 1000, trusted: true}, poll: 5 * time.Minute, log: &logCount{t: t}, fs: disk.OS}
	return w
}

func (w *world) store() bucket.Bucket {
	if w.over != nil {
		return w.over
	}
	return w.bucket
}

// rootOf is a root document whose deploy keys have that name.
func rootOf(t *testing.T, version, floor, since uint64, deploy string, by ...string) []byte {
	t.Helper()
	grant := func(name string, since uint64) signed.Grant {
		return signed.Grant{Threshold: 1, Since: since, Keys: []signed.KeyID{keyOf(name).ID()}}
	}
	r := signed.Root{Fleet: fleetName, Version: version, CreatedMs: created, Roles: signed.Grants{Root: grant("root", 1), Release: grant("release", 1), Deploy: grant(deploy, since)}}
	r.Roles.Deploy.Floor = floor
	for _, name := range []string{"root", "release", deploy} {
		r.Keys = append(r.Keys, signed.NewRootKey(keyOf(name).Public(), name))
	}
	payload, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return sealed(t, signed.TypeRoot, payload, append(by, "root")...)
}

func sealed(t *testing.T, typ string, payload []byte, by ...string) []byte {
	t.Helper()
	var keys []signed.Signer
	for _, name := range by {
		keys = append(keys, keyOf(name))
	}
	e, err := signed.Seal(context.Background(), typ, payload, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e.Bytes()
}

type encoder interface{ Encode() ([]byte, error) }

func encoded(t *testing.T, d encoder) []byte {
	t.Helper()
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w *world) put(name string, body []byte) {
	if err := w.store().Put(context.Background(), name, body); err != nil {
		w.t.Fatal(err)
	}
}

// commands publishes commands for the gateway.
func (w *world) commands(serial uint64, list ...document.Command) {
	w.put(depot.DeviceCommands(gatewayName), sealed(w.t, signed.TypeCommands, encoded(w.t, commandsOf(serial, list...)), "deploy"))
}

func commandsOf(serial uint64, list ...document.Command) *document.Commands {
	return &document.Commands{Fleet: fleetName, Scope: "device/" + gatewayName, Serial: serial, CreatedMs: created + int64(serial%1000), List: list}
}

func command(serial uint64, do string) document.Command {
	c := document.Command{Serial: serial, ID: fmt.Sprintf("c%d", serial), Do: do, CreatedMs: created}
	switch do {
	case document.DoApply:
		c.Config = "gateway: x\n"
	case document.DoUpgrade:
		c.Release, c.Policy = strings.Repeat("0", 64), &document.Policy{Savepoint: "best-effort"}
	}
	return c
}

// release publishes a release, and gives its name.
func (w *world) release(version string) string {
	payload := encoded(w.t, releaseOf(version))
	w.put(depot.Release(digestOf(payload)), sealed(w.t, signed.TypeRelease, payload, "release"))
	return digestOf(payload)
}

func releaseOf(version string) *document.Release {
	sum := digestOf([]byte(version))
	return &document.Release{Fleet: fleetName, Version: version, CreatedMs: created, SecureVersion: 1, MinSecureVersion: 1, Artifacts: []document.Artifact{{
		Backend: "self", Arch: "arm64", Bytes: 10, SHA256: sum, ChunkBytes: 128 << 10, Chunks: []string{sum},
		Compat: document.Compat{Formats: map[string]document.Versions{"journal": {Least: 1, Most: 1, Writes: 1}}, State: map[string]document.Versions{}},
	}}}
}

func rolloutOf(serial uint64, id, release string) *document.Rollout {
	return &document.Rollout{Fleet: fleetName, Serial: serial, Channel: channelName, ID: id, Release: release, CreatedMs: created + int64(serial), Permille: 1000, Policy: document.Policy{Savepoint: "required"},
		Limits: document.Limits{MaxFailedPermille: 50, MinReports: 1, SilenceMs: 1000}}
}

func (w *world) rollout(r *document.Rollout) {
	w.put(depot.Rollout(channelName), sealed(w.t, signed.TypeRollout, encoded(w.t, r), "deploy"))
}

// start starts the gateway's process.
func (w *world) start() {
	w.t.Helper()
	trust, err := signed.NewTrust(rootOf(w.t, 1, 0, 1, "deploy"))
	if err != nil {
		w.t.Fatal(err)
	}
	for { // as the agent does
		b, err := disk.ReadFile(disk.OS, filepath.Join(w.dir, "roots", fmt.Sprintf("root-%d.json", trust.Version()+1)))
		if err != nil {
			break
		}
		if err := trust.Advance(b); err != nil {
			w.t.Fatal(err)
		}
	}
	cfg := Config{Gateway: gatewayName, Channel: channelName, Board: boardName, Depot: depot.Depot{Bucket: w.store()}, Trust: trust, Roots: filepath.Join(w.dir, "roots"), FS: w.fs, Dir: filepath.Join(w.dir, "fleet"),
		Pace: pace.Pace{Poll: w.poll, Spread: 10 * time.Second}, Timeout: 30 * time.Second, Acts: w.acts, Clock: w.clock, Key: func() (signed.Signer, error) { return keyOf(w.acts.key()), nil }, Log: slog.New(w.log),
		hook: w.hook, random: func() float64 { return 0.5 }, faults: w.faults}
	if w.bell != nil {
		cfg.Bell = w.bell
	}
	ch := New(cfg)
	w.ch = ch
	w.acts.born()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if r := recover(); r != nil && r != errCrash {
				panic(r)
			}
		}()
		_ = ch.Run(ctx)
	}()
	w.stop = func() { cancel(); <-over }
}

var errCrash = errors.New("crash")

// run lets the gateway run for a time, and stops it.
func (w *world) run(d time.Duration) {
	w.start()
	time.Sleep(d)
	w.stop()
}

// result is what the store has of a command; nil: nothing.
func (w *world) result(serial uint64) *document.Result {
	w.t.Helper()
	b, _, err := w.store().Get(context.Background(), depot.Result(gatewayName, "device/"+gatewayName, 1, serial))
	if err != nil {
		return nil
	}
	for _, key := range []string{"device", "device2"} {
		payload, err := signed.VerifyDevice(b, signed.TypeResult, keyOf(key).Public())
		if err != nil {
			continue
		}
		r, err := document.DecodeResult(payload)
		if err != nil {
			w.t.Fatal(err)
		}
		return r
	}
	w.t.Fatalf("the result of %d is signed by nobody", serial)
	return nil
}

// fakeActs is what a gateway does, over all its processes.
type fakeActs struct {
	mu       sync.Mutex
	version  string
	release  string // that runs
	keys     int    // how often the key was changed
	done     []string
	resumed  []string
	asked    []string // of the upgrader
	halted   []string
	out      Outcome // of Do; without a result: done
	refuse   error   // of Upgrade
	ends     *Outcome
	problems []string
	process  int
	upgrade  *document.Progress
	block    chan struct{} // Do waits for it
	fenced   error
}

func (a *fakeActs) born() { a.mu.Lock(); a.process++; a.mu.Unlock() }
func (a *fakeActs) key() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys > 0 {
		return "device2"
	}
	return "device"
}

func (a *fakeActs) State() document.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := document.State{Arch: "arm64", Version: a.version, Digest: strings.Repeat("a", 64), Release: a.release, Pipeline: map[string]string{"p": "running"}, Problems: slices.Clone(a.problems)}
	if a.upgrade != nil {
		u := *a.upgrade
		s.Upgrade = &u
	}
	return s
}

func (a *fakeActs) Do(ctx context.Context, o *Order) Outcome {
	a.mu.Lock()
	a.done = append(a.done, fmt.Sprintf("%s %s %d", o.Scope, o.Do, o.Serial))
	block, out := a.block, a.out
	a.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return Outcome{Result: document.ResultFailed, Detail: "cut"}
		}
	}
	switch {
	case o.Do == document.DoRestart:
		return Outcome{}
	case out.Result != "":
		return out
	}
	return Outcome{Result: document.ResultDone, Detail: o.Do}
}

func (a *fakeActs) Resume(_ context.Context, o *Order) Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resumed = append(a.resumed, fmt.Sprintf("%s %d", o.Do, o.Serial))
	switch {
	case o.Do == document.DoRestart && o.Before, o.Do == document.DoRotateKey:
		return Outcome{Result: document.ResultDone}
	case o.Before:
		return Outcome{Result: document.ResultFailed, Detail: "cut short by a restart"}
	}
	return Outcome{}
}

func (a *fakeActs) Settled(*Order) error { a.mu.Lock(); defer a.mu.Unlock(); a.keys = 1; return nil }

func (a *fakeActs) Upgrade(_ context.Context, h *Handover) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		return a.refuse
	}
	key := h.Scope + " " + h.Rollout + h.Command + " " + h.Release.Version
	if h.Command != "" && slices.Contains(a.asked, key) {
		return nil
	}
	a.asked = append(a.asked, key)
	return nil
}

func (a *fakeActs) Upgraded(*Order) (Outcome, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return Outcome{}, false
	}
	if a.ends != nil {
		return *a.ends, true
	}
	return Outcome{}, true
}

func (a *fakeActs) Halt(rollout, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halted = append(a.halted, rollout+": "+why)
}

func (a *fakeActs) Fenced() error { a.mu.Lock(); defer a.mu.Unlock(); return a.fenced }

func (a *fakeActs) did() []string { a.mu.Lock(); defer a.mu.Unlock(); return slices.Clone(a.done) }

type fakeClock struct {
	mu      sync.Mutex
	ms      int64
	trusted bool
	told    int64
}

func (c *fakeClock) Now() (int64, bool) { c.mu.Lock(); defer c.mu.Unlock(); return c.ms, c.trusted }
func (c *fakeClock) Told(ms int64)      { c.mu.Lock(); defer c.mu.Unlock(); c.told = max(c.told, ms) }

// fakeBell gives what a test sends.
type fakeBell struct{ rings chan []byte }

func (b *fakeBell) Run(ctx context.Context, ring func([]byte), heard func(bool)) {
	heard(true)
	defer heard(false)
	for {
		select {
		case p := <-b.rings:
			ring(p)
		case <-ctx.Done():
			return
		}
	}
}

// logCount counts lines by message.
type logCount struct {
	t  *testing.T
	mu sync.Mutex
	n  map[string]int
}

func (l *logCount) Enabled(context.Context, slog.Level) bool { return true }
func (l *logCount) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logCount) WithGroup(string) slog.Handler            { return l }
func (l *logCount) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = map[string]int{}
	}
	l.n[r.Message]++
	return nil
}
func (l *logCount) lines(message string) int { l.mu.Lock(); defer l.mu.Unlock(); return l.n[message] }
