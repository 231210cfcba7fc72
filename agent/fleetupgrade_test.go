//go:build !nocentral

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
)

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
