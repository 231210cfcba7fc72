//go:build !nocentral

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// fleetBench is a bench that a fleet directs, over a directory.
type fleetBench struct {
	*bench
	slots  *slotDir
	store  *bucket.Directory
	serial uint64
	list   []document.Command
	keys   []ed25519.PublicKey // that this gateway has had
}

func newFleetBench(t *testing.T) *fleetBench {
	b, s := newUpgradeBench(t)
	dir := t.TempDir()
	b.text = strings.Replace(b.text, "fleet: {root:", "fleet: {channel: stable, poll: 10s, spread: 0s, root:", 1)
	b.text = strings.Replace(b.text, "pipelines:", fmt.Sprintf("central: {url: \"file://%s\", interval: 1h, fence_poll: 1h}\npipelines:", dir), 1)
	return &fleetBench{bench: b, slots: s, store: bucket.OpenDirectory(dir)}
}

// up starts the agent, as what starts it does when it has ended by itself.
func (b *fleetBench) up() {
	b.t.Helper()
	b.boot(b.slots)
	key, err := SigningKey(b.agent.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.keys = append(b.keys, key.Public().(ed25519.PublicKey))
}

// order publishes one more command for this gateway.
func (b *fleetBench) order(do string, change func(c *document.Command)) uint64 {
	b.t.Helper()
	b.serial++
	c := document.Command{Serial: b.serial, ID: fmt.Sprintf("c%d", b.serial), Do: do, CreatedMs: 1_780_000_000_000}
	if change != nil {
		change(&c)
	}
	b.list = append(b.list, c)
	b.publish(depot.DeviceCommands("test"), signed.TypeCommands, &document.Commands{Fleet: "plant", Scope: "device/test", Serial: b.serial, CreatedMs: 1_780_000_000_000, List: b.list}, "deploy")
	return b.serial
}

func (b *fleetBench) publish(name, typ string, d interface{ Encode() ([]byte, error) }, by string) {
	b.t.Helper()
	payload, err := d.Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	e, err := signed.Seal(b.t.Context(), typ, payload, rig.FleetKey(by))
	if err == nil {
		err = b.store.Put(b.t.Context(), name, e.Bytes())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// release puts a program into the depot, and gives the sha256 of its manifest.
func (b *fleetBench) release(version string, change func(*document.Release)) string {
	b.t.Helper()
	file, envelope := program(b.t, b.dir, version, change)
	e, err := signed.Parse(envelope)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := document.DecodeRelease(e.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	for i, sha := range r.Artifacts[0].Chunks {
		at := int64(i) * r.Artifacts[0].ChunkBytes
		err = errors.Join(err, b.store.Put(b.t.Context(), depot.Chunk(sha), text[at:at+r.Artifacts[0].Length(i)]))
	}
	sum := sha256.Sum256(e.Payload)
	name := hex.EncodeToString(sum[:])
	if err = errors.Join(err, b.store.Put(b.t.Context(), depot.Release(name), envelope)); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// read gives a payload that a key of this gateway has signed; nil: there is none yet.
func (b *fleetBench) read(name, typ string) []byte {
	b.t.Helper()
	body, _, err := b.store.Get(b.t.Context(), name)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for _, key := range b.keys {
		if payload, err := signed.VerifyDevice(body, typ, key); err == nil {
			return payload
		}
	}
	b.t.Fatalf("%s is signed by no key of this gateway", name)
	return nil
}

func (b *fleetBench) result(serial uint64) *document.Result {
	b.t.Helper()
	payload := b.read(depot.Result("test", "device/test", 1, serial), signed.TypeResult)
	if payload == nil {
		return nil
	}
	r, err := document.DecodeResult(payload)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// ends waits for the result of a command.
func (b *fleetBench) ends(serial uint64, want string) *document.Result {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if r := b.result(serial); r != nil {
			if r.Result != want {
				b.t.Fatalf("command %d, %s: %s, want %s: %s", serial, r.Do, r.Result, want, r.Detail)
			}
			return r
		}
	}
	b.t.Fatalf("command %d has no result: %+v", serial, b.agent.Status().Fleet)
	return nil
}

// file reads what the gateway has handed in.
func (b *fleetBench) file(name string) []byte {
	b.t.Helper()
	body, _, err := b.store.Get(context.Background(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

// TestFleetCommands: each command, one after the other, in one agent that is started again where a command says so.
func TestFleetCommands(t *testing.T) {
	b := newFleetBench(t)
	b.text = strings.Replace(b.text, "gateway: test", "gateway: test # token: hunter2", 1)
	b.up()
	b.put(1, 20)
	b.await("delivery", at(20))
	state := func(name, want string) func(*api.Status) bool {
		return func(s *api.Status) bool {
			for _, p := range s.Pipelines {
				if p.Name == name {
					return p.State == want
				}
			}
			return false
		}
	}

	r := b.ends(b.order(document.DoSavepoint, func(c *document.Command) { c.Pipeline, c.Upload = "p", true }), document.ResultDone)
	if len(r.Files) != 1 || len(b.file(r.Files[0])) == 0 || r.Files[0] != "_fleet/report/test/file/savepoints/fleet-device-1-1-p.savepoint" {
		t.Errorf("savepoint: %+v", r)
	}
	b.ends(b.order(document.DoStop, nil), document.ResultDone)
	b.await("stop of p", state("p", "stopped"))
	b.await("stop of q", state("q", "stopped"))
	b.ends(b.order(document.DoStart, func(c *document.Command) { c.Pipeline = "p" }), document.ResultDone)
	b.await("start of p", state("p", "running"))
	b.ends(b.order(document.DoSavepoint, func(c *document.Command) { c.Pipeline, c.WithStop = "p", true }), document.ResultDone)
	b.await("stop behind a savepoint", state("p", "stopped"))
	b.ends(b.order(document.DoStart, nil), document.ResultDone)
	b.await("start of all", state("q", "running"))
	b.ends(b.order(document.DoRestartPipeline, func(c *document.Command) { c.Pipeline = "q" }), document.ResultDone)
	if r := b.ends(b.order(document.DoStop, func(c *document.Command) { c.Pipeline = "nobody" }), document.ResultRefused); !strings.Contains(r.Detail, "nobody") {
		t.Errorf("%+v", r)
	}

	r = b.ends(b.order(document.DoDiagnostics, func(c *document.Command) { c.Upload = true }), document.ResultDone)
	has := contents(t, b.file(r.Files[0]))
	for name, want := range map[string]string{"status.json": `"gateway": "test"`, "metrics.txt": "weir_fleet_polls_total", "config.yaml": "gateway: test", "log.txt": "command begun", "records/ledger.json": "device/test"} {
		if !strings.Contains(has[name], want) {
			t.Errorf("diagnostics: %s has no %q: %.400s", name, want, has[name])
		}
	}
	if strings.Contains(has["config.yaml"], "hunter2") {
		t.Error("diagnostics have a secret")
	}

	changed := strings.Replace(b.text, "window: {tumbling: 10ms}, aggregate: {n: count()}", "window: {tumbling: 10ms}, aggregate: {n: count(), least: min(id)}", 1)
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config, c.DryRun, c.Allow = changed, true, true }), document.ResultDone); !strings.Contains(r.Detail, "pipeline p: changed") {
		t.Errorf("dry run: %+v", r)
	}
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config = "gateway: [" }), document.ResultRefused); !strings.Contains(r.Detail, ":1:") {
		t.Errorf("%+v", r)
	}
	if r := b.ends(b.order(document.DoApply, func(c *document.Command) { c.Config = strings.Replace(b.text, "channel: stable", "channel: mine", 1) }), document.ResultRefused); !strings.Contains(r.Detail, "fleet changed") {
		t.Errorf("%+v", r)
	}

	n := b.order(document.DoRestart, nil)
	b.ended()
	b.up()
	b.ends(n, document.ResultDone)

	n = b.order(document.DoRotateKey, nil)
	b.ended()
	b.up()
	r = b.ends(n, document.ResultDone)
	old, now := b.keys[len(b.keys)-2], b.keys[len(b.keys)-1]
	if old.Equal(now) || !strings.Contains(r.Detail, "new key "+central.FormatPublic(now)) {
		t.Errorf("the key was not rotated: %+v", r)
	}
	if _, err := signed.VerifyDevice(b.file(depot.Result("test", "device/test", 1, n)), signed.TypeResult, old); err != nil {
		t.Errorf("the old key has not signed: %v", err)
	}
	b.keys = b.keys[len(b.keys)-1:]
	b.ends(b.order(document.DoStart, nil), document.ResultDone) // by the new key
	b.wantIDs("p", [2]int{1, 20})
	b.halt()
}

// contents are the files of an archive.
func contents(t *testing.T, b []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(text)
	}
}

// TestFleetUpgradeByCommand: by a document, from the depot, over the change of the process, and its result behind it.
func TestFleetUpgradeByCommand(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	release := b.release("9.9.1", nil)
	policy := &document.Policy{Savepoint: "best-effort"}
	n := b.order(document.DoUpgrade, func(c *document.Command) { c.Release, c.Policy = release, policy })
	b.ended()
	if got := strings.Join(b.slots.calls, ", "); !strings.Contains(got, "activate a") {
		t.Errorf("calls %s", got)
	}
	b.up()
	b.put(11, 20)
	b.ends(n, document.ResultDone)
	rec := b.agent.upgrader.record()
	if rec.Command != fmt.Sprintf("c%d", n) || rec.Scope != "device/test" || rec.Target.Release != release || rec.State != upgrade.Committed {
		t.Errorf("%+v", rec)
	}
	b.await("delivery behind it", at(20))
	b.wantIDs("p", [2]int{1, 20})

	deploy := b.order(document.DoUpgrade, func(c *document.Command) { // signed by who may direct, and not build
		r, err := document.DecodeRelease(b.payloadOf(release))
		if err != nil {
			t.Fatal(err)
		}
		r.Version = "9.9.2"
		payload, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(payload)
		c.Release, c.Policy = hex.EncodeToString(sum[:]), policy
		b.publish(depot.Release(c.Release), signed.TypeRelease, r, "deploy")
	})
	if r := b.ends(deploy, document.ResultRefused); !strings.Contains(r.Detail, "too few signatures") {
		t.Errorf("%+v", r)
	}
	b.halt()
}

func (b *fleetBench) payloadOf(release string) []byte {
	b.t.Helper()
	e, err := signed.Parse(b.file(depot.Release(release)))
	if err != nil {
		b.t.Fatal(err)
	}
	return e.Payload
}

// TestFleetRollout: taken up once, told of, and given up when it is halted.
func TestFleetRollout(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	r := &document.Rollout{Fleet: "plant", Serial: 1, Channel: "stable", ID: "r1", Release: b.release("9.9.1", nil), CreatedMs: 1_780_000_000_000, Permille: 1000,
		Policy: document.Policy{Savepoint: "best-effort", Window: elsewhen()}, Limits: document.Limits{MaxFailedPermille: 50, MinReports: 1, SilenceMs: 1000}}
	b.publish(depot.Rollout("stable"), signed.TypeRollout, r, "deploy")
	b.await("the upgrade", func(s *api.Status) bool { return s.Upgrade != nil && strings.Contains(s.Upgrade.Waits, "window") })
	r.Serial, r.Halted, r.WhyHalt = 2, true, "too many failed"
	b.publish(depot.Rollout("stable"), signed.TypeRollout, r, "deploy")
	s := b.await("the halt", func(s *api.Status) bool { return s.Upgrade.State == string(upgrade.Failed) })
	if !strings.Contains(s.Upgrade.Why, "too many failed") || s.Upgrade.Cause != string(upgrade.CauseHalted) {
		t.Errorf("%+v", s.Upgrade)
	}
	r.Serial, r.Halted, r.WhyHalt, r.ID, r.Policy.Window = 3, false, "", "r2", ""
	b.publish(depot.Rollout("stable"), signed.TypeRollout, r, "deploy")
	b.ended()
	b.up()
	b.put(11, 20)
	b.await("delivery behind it", at(20))
	b.await("the commit", func(s *api.Status) bool { return s.Upgrade.State == string(upgrade.Committed) })
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if payload := b.read(depot.Progress("r2", "test"), signed.TypeProgress); payload != nil {
			p, err := document.DecodeProgress(payload)
			if err != nil {
				t.Fatal(err)
			}
			if p.Outcome == "committed" && p.To == "9.9.1" {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the roll-out's progress is not told")
		}
	}
	b.wantIDs("p", [2]int{1, 20})
	b.halt()
}

// TestFetchesAreSpread: what all gateways are to have this one fetches at a moment that was drawn, and what it was asked for alone at once; while it waits it can be halted.
func TestFetchesAreSpread(t *testing.T) {
	b := newFleetBench(t)
	b.text = strings.Replace(b.text, "poll: 10s, spread: 0s", "poll: 1d, spread: 1d", 1)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	name := b.release("9.9.1", nil)
	r, err := document.DecodeRelease(b.payloadOf(name))
	if err != nil {
		t.Fatal(err)
	}
	h := &channel.Handover{Scope: "rollout/stable", Serial: 1, Since: 1, Rollout: "r1", Policy: document.Policy{Savepoint: "best-effort"}, SHA256: name, Release: r, Envelope: b.file(depot.Release(name))}
	if err := b.agent.fleet.Upgrade(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	s := b.await("its turn", func(s *api.Status) bool { return s.Upgrade != nil && strings.Contains(s.Upgrade.Waits, "fleet.spread") })
	if s.Upgrade.State != string(upgrade.Fetching) {
		t.Errorf("%+v", s.Upgrade)
	}
	b.agent.fleet.Halt("r1", "enough")
	b.await("the halt", func(s *api.Status) bool { return s.Upgrade.State == string(upgrade.Failed) })
	b.publish(depot.Rollout("stable"), signed.TypeRollout, &document.Rollout{Fleet: "plant", Serial: 1, Channel: "stable", ID: "r1", Release: name, CreatedMs: 1_780_000_000_000, Permille: 1000, Halted: true, WhyHalt: "enough",
		Policy: document.Policy{Savepoint: "best-effort"}, Limits: document.Limits{MaxFailedPermille: 50, MinReports: 1, SilenceMs: 1000}}, "deploy") // the program on trial has to hear a word of its fleet
	h.Scope, h.Rollout, h.Command = "device/test", "", "c1"
	if err := b.agent.fleet.Upgrade(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.ended()
	b.up()
	b.await("the commit", func(s *api.Status) bool { return s.Upgrade.State == string(upgrade.Committed) })
	b.wantIDs("p", [2]int{1, 10})
	b.halt()
}

// TestChunksWaitForTheLink: pieces of a program come over central.link, when it may be used.
func TestChunksWaitForTheLink(t *testing.T) {
	b := newFleetBench(t)
	b.text = strings.Replace(b.text, "central: {", fmt.Sprintf("links: {slow: {windows: [%q], zone: %s}}\ncentral: {link: slow, ", elsewhen(), time.Now().Format("MST")), 1)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	release := b.release("9.9.1", nil)
	n := b.order(document.DoUpgrade, func(c *document.Command) { c.Release, c.Policy = release, &document.Policy{Savepoint: "best-effort"} })
	b.await("the fetch", upgradeIs(upgrade.Fetching))
	ctx, cancel := context.WithCancel(t.Context())
	_, pause, err := b.agent.fleetChunks()
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan error, 1)
	go func() { passed <- pause(ctx, 1) }()
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ends(n, document.ResultFailed)
	cancel()
	if err := <-passed; !errors.Is(err, context.Canceled) {
		t.Errorf("a piece may be asked for though the link may not be used: %v", err)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "state", "upgrade", "slot.part")); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes were fetched", info.Size())
	}
	b.halt()
}

// TestUpgradesExpire: one that waits at a gate until its document's time is over ends so, whether a command asked or a roll-out; nothing is stopped, and the program may be asked for again.
func TestUpgradesExpire(t *testing.T) {
	b := newFleetBench(t)
	b.options.TrustClock = true
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	running := b.agent.named("p").running()
	name := b.release("9.9.1", nil)
	policy := document.Policy{Savepoint: "best-effort", Window: elsewhen()}
	soon := func() int64 { return time.Now().Add(3 * time.Second).UnixMilli() }
	n := b.order(document.DoUpgrade, func(c *document.Command) { c.Release, c.Policy, c.ExpiresMs = name, &policy, soon() })
	b.ends(n, document.ResultExpired)
	r, err := document.DecodeRelease(b.payloadOf(name))
	if err != nil {
		t.Fatal(err)
	}
	h := &channel.Handover{Scope: "rollout/stable", Serial: 1, Since: 1, Rollout: "r1", Policy: policy, SHA256: name, Release: r, Envelope: b.file(depot.Release(name)), ExpiresMs: soon()}
	if err := b.agent.fleet.Upgrade(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	s := b.await("the end of its time", func(s *api.Status) bool {
		return s.Upgrade.State == string(upgrade.Failed) && b.agent.upgrader.record().Rollout == "r1"
	})
	rec := b.agent.upgrader.record()
	if s.Upgrade.Cause != string(upgrade.CauseExpired) || progressOf(&rec).Outcome != "expired" || len(rec.Rejected) > 0 || b.agent.named("p").running() != running {
		t.Errorf("%+v, rejected %v", s.Upgrade, rec.Rejected)
	}
	b.halt()
}

// elsewhen is a window that is not now.
func elsewhen() string {
	from := time.Now().Add(6 * time.Hour)
	return from.Format("15:04") + "-" + from.Add(time.Hour).Format("15:04")
}

// TestFleetThatIsBroken: a ledger that cannot be read keeps commands away, and no pipeline from running.
func TestFleetThatIsBroken(t *testing.T) {
	b := newFleetBench(t)
	dir := filepath.Join(b.dir, "state", "fleet")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "ledger.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.up()
	b.put(1, 10)
	s := b.await("delivery", at(10))
	if s.Fleet == nil || !strings.Contains(s.Fleet.Broken, "ledger.json") || len(s.Problems) == 0 {
		t.Errorf("%+v", s.Fleet)
	}
	b.await("a report", func(s *api.Status) bool { return s.Fleet.Reports > 0 })
	if said := string(b.read(depot.State("test"), signed.TypeState)); !strings.Contains(said, "nobody directs this gateway from afar") {
		t.Errorf("reported: %s", said)
	}
	b.halt()
	r, err := Check(t.Context(), b.agent.config, true)
	if err != nil || len(r.Stops) > 0 || !strings.Contains(fmt.Sprint(r.Repaired), "ledger.json.aside-1") {
		t.Errorf("%+v, %v", r, err)
	}
	b.order(document.DoStop, nil) // published before the gateway has looked again
	b.up()
	if r := b.ends(1, document.ResultFailed); !strings.Contains(r.Detail, "Give it again") {
		t.Errorf("%+v", r)
	}
	b.order(document.DoSavepoint, nil)
	b.ends(2, document.ResultDone)
	b.halt()
}

func TestRedacted(t *testing.T) {
	text := `gateway: gw
brokers:
  b: {url: "ssl://user:pass@host:1", username: u, password_file: /etc/pw, token: abc}
sinks:
  - http:
      url: https://me:secret1@host/x
      token_file: /etc/token
      headers:
        X-Key: "secret2"
        Other: secret3
      batch: 5
  - http: {headers: {Authorization: "Bearer secret4"}}
api_key: secret5 # the old one was secret7
# secret8
name: "a # b" # secret9
password: "secret6"
`
	got := string(redacted([]byte(text)))
	for _, secret := range []string{"pass@", "abc", "secret1", "secret2", "secret3", "secret4", "secret5", "secret6", "secret7", "secret8", "secret9"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is left:\n%s", secret, got)
		}
	}
	for _, stays := range []string{"/etc/pw", "/etc/token", "username: u", "batch: 5", "gateway: gw", "a # b"} {
		if !strings.Contains(got, stays) {
			t.Errorf("%s is gone:\n%s", stays, got)
		}
	}
}

func TestLastLines(t *testing.T) {
	l := &lastLines{}
	for i := range 5000 {
		fmt.Fprintf(l, "line %d of many, all of which have some words in them\n", i)
	}
	got := string(l.bytes())
	if len(got) > lastLinesBytes || len(got) < lastLinesBytes/2 || !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "line 4999 of many, all of which have some words in them\n") {
		t.Errorf("%d bytes, from %.20q", len(got), got)
	}
}

// TestRedactedIsQuoted: a config may be JSON.
func TestRedactedIsQuoted(t *testing.T) {
	text := `{"sinks": [{"http": {"url": "https://h/x", "headers": {"X-Auth": "secret1", "Other": "secret2"}, "batch": 5}}]}
"http":
  "headers":
    "X-Auth": secret3
    More: |
      secret4
  'headers' : {
    X: secret5,
    Y: secret6
  }
  batch: 5
`
	got := string(redacted([]byte(text)))
	for i := range 6 {
		if secret := fmt.Sprintf("secret%d", i+1); strings.Contains(got, secret) {
			t.Errorf("%s is left:\n%s", secret, got)
		}
	}
	if !strings.Contains(got, "  batch: 5") {
		t.Errorf("too much is gone:\n%s", got)
	}
}

// TestLedgerHoldsNoConfig: of a command that is under way the ledger has the whole text of a config, as one string.
func TestLedgerHoldsNoConfig(t *testing.T) {
	config := "sinks:\n  - http:\n      headers:\n        X-Auth: secret1\n        Y: \"sec ret2, and more\"\n"
	ledger, err := json.Marshal(map[string]any{"format": 1, "orders": []any{map[string]any{"id": "c1", "serial": 7, "command": map[string]any{"do": "apply", "config": config}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := string(withoutConfigs(ledger))
	if strings.Contains(got, "ret") || strings.Contains(got, "X-Auth") || !strings.Contains(got, `"c1"`) || !strings.Contains(got, "apply") {
		t.Errorf("%s", got)
	}
	if got := string(withoutConfigs(ledger[:len(ledger)-3])); strings.Contains(got, "ret") {
		t.Errorf("cut short: %s", got)
	}
}
