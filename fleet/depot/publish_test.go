package depot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

func TestRolloutsArePublishedInOrder(t *testing.T) {
	p := newPlant(t)
	ctx := t.Context()
	empty, r, err := p.CurrentRollout(ctx, p.trust, "stable")
	if err != nil || r != nil || empty.Version != "" || empty.Err != nil {
		t.Fatalf("%+v, %+v, %v", empty, r, err)
	}
	if err := p.publish(p.rollout(1, nil)); err != nil {
		t.Fatal(err)
	}
	before, r, err := p.CurrentRollout(ctx, p.trust, "stable")
	if err != nil || r == nil || r.Serial != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := p.publish(p.rollout(1, func(r *document.Rollout) { r.Permille = 500 })); err == nil || !strings.Contains(err.Error(), "serial 1 behind 1") {
		t.Errorf("a serial twice: %v", err)
	}
	if err := p.publish(p.rollout(2, nil)); err != nil {
		t.Fatal(err)
	}
	if err := p.PublishRollout(ctx, p.trust, "stable", before, p.rollout(3, nil)); !errors.Is(err, ErrLost) {
		t.Errorf("somebody else's document is lost: %v", err)
	}
	if got := p.store.Names("_fleet/channel/"); !slices.Equal(got, []string{History("stable", 1), History("stable", 2), Rollout("stable")}) {
		t.Errorf("%q", got)
	}
	for what, e := range map[string]*signed.Envelope{
		"another channel": p.rollout(3, func(r *document.Rollout) { r.Channel = "beta" }), "another fleet": p.rollout(3, func(r *document.Rollout) { r.Fleet = "other" }),
		"the release key": p.seal(signed.TypeRollout, p.rollout(3, nil).Payload, p.keys[signed.RoleRelease]), "another type": p.seal(signed.TypeCommands, p.rollout(3, nil).Payload, p.keys[signed.RoleDeploy]),
	} {
		if err := p.publish(e); err == nil || !strings.Contains(err.Error(), "nothing was published") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPublishSurvivesLostAnswers: whatever one request's answer is, a repeat of the whole ends with one document, and the history is whole.
func TestPublishSurvivesLostAnswers(t *testing.T) {
	for _, fault := range []buckettest.Fault{buckettest.Lost, buckettest.AnswerLost} {
		for n := 1; n <= 8; n++ {
			p := newPlant(t)
			if err := p.publish(p.rollout(1, nil)); err != nil {
				t.Fatal(err)
			}
			first := p.store.Requests()
			e := p.rollout(2, nil)
			p.store.Fault = func(r buckettest.Request) buckettest.Fault {
				if r.N == first+n {
					return fault
				}
				return buckettest.None
			}
			if err := p.publish(e); err != nil {
				if err := p.publish(e); err != nil && !strings.Contains(err.Error(), "serial 2 behind 2") {
					t.Errorf("fault %d at request %d: %v", fault, n, err)
				}
			}
			p.store.Fault = nil
			if err := p.publish(p.rollout(3, nil)); err != nil {
				t.Errorf("fault %d at request %d: %v", fault, n, err)
			}
			last, releases, err := p.HistoryLast(t.Context(), p.trust, "stable")
			if got := p.store.Names(Channels); err != nil || last != 3 || len(got) != 4 || !slices.Equal(releases, []string{sha}) {
				t.Errorf("fault %d at request %d: %d %q %q %v", fault, n, last, got, releases, err)
			}
		}
	}
}

// TestWhatDoesNotCountCanBeReplaced: the serial goes on from the history.
func TestWhatDoesNotCountCanBeReplaced(t *testing.T) {
	p := newPlant(t)
	for serial := uint64(1); serial < 12; serial++ {
		if err := p.publish(p.rollout(serial, nil)); err != nil {
			t.Fatal(err)
		}
	}
	p.store.Change(Rollout("stable"), func([]byte) []byte { return []byte("rubbish") })
	if err := p.store.Put(t.Context(), History("stable", 99), p.seal(signed.TypeRollout, p.rollout(99, nil).Payload, aKey(t)).Bytes()); err != nil {
		t.Fatal(err)
	}
	c, r, err := p.CurrentRollout(t.Context(), p.trust, "stable")
	if err != nil || r != nil || c.Err == nil || c.Version == "" {
		t.Fatalf("%+v, %+v, %v", c, r, err)
	}
	last, _, err := p.HistoryLast(t.Context(), p.trust, "stable")
	if err != nil || last != 11 {
		t.Errorf("%d, %v", last, err)
	}
	if err := p.publish(p.rollout(12, nil)); err != nil {
		t.Error(err)
	}
	p.store.Change(Rollout("stable"), func([]byte) []byte { return p.rollout(13, func(r *document.Rollout) { r.Fleet = "other" }).Bytes() })
	if c, r, err := p.CurrentRollout(t.Context(), p.trust, "stable"); err != nil || r != nil || !errors.Is(c.Err, ErrOther) {
		t.Errorf("%+v, %+v, %v", c, r, err)
	}
	if n, err := NextSerial(p.trust, 0); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := NextSerial(p.trust, strict.SerialMost); err == nil {
		t.Error("a serial that nobody can read")
	}
}

func TestCommandsAreAppended(t *testing.T) {
	p := newPlant(t)
	list, err := NewCommands("plant", "device/gw", 0)
	if err != nil {
		t.Fatal(err)
	}
	answered := map[uint64]bool{}
	add := func(c document.Command) []document.Command {
		c.CreatedMs = now
		next, dropped, err := Append(list, c, func(serial uint64) bool { return answered[serial] }, now)
		if err != nil {
			t.Fatal(err)
		}
		list = next
		return dropped
	}
	for i := range 64 {
		if dropped := add(document.Command{ID: fmt.Sprint("c", i), Do: "restart"}); dropped != nil {
			t.Errorf("%+v dropped", dropped)
		}
	}
	if dropped := add(document.Command{ID: "one too many", Do: "restart"}); len(dropped) != 1 || dropped[0].Serial != 1 || len(list.List) != 64 || list.Serial != 65 {
		t.Errorf("%+v, %d left", dropped, len(list.List))
	}
	answered[2], answered[3] = true, true
	if dropped := add(document.Command{ID: "apply", Do: "apply", Config: strings.Repeat("x", 200_000)}); dropped != nil || len(list.List) != 63 {
		t.Errorf("%+v, %d left", dropped, len(list.List))
	}
	for i := range 3 {
		add(document.Command{ID: fmt.Sprint("apply", i), Do: "apply", Config: strings.Repeat("x", 250_000)})
	}
	b, err := list.Encode()
	if err != nil {
		t.Fatal(err)
	}
	e := p.seal(signed.TypeCommands, b, p.keys[signed.RoleDeploy])
	if n := len(e.Bytes()); n > signed.BytesMax || list.List[len(list.List)-1].ID != "apply2" || len(list.List) != 3 {
		t.Errorf("%d bytes, %d commands", n, len(list.List))
	}
	if _, _, err := Append(list, document.Command{ID: "apply2", Do: "restart", CreatedMs: now}, nil, now); err == nil {
		t.Error("one id twice")
	}
	expired, _, err := Append(list, document.Command{ID: "x", Do: "restart", CreatedMs: now, ExpiresMs: now + 5}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if later, _, err := Append(expired, document.Command{ID: "y", Do: "restart", CreatedMs: now + 6}, nil, now+6); err != nil || len(later.List) != len(expired.List) || later.Serial != expired.Serial+1 {
		t.Errorf("%v", err)
	}
	c, was, err := p.CurrentCommands(t.Context(), p.trust, "device/gw")
	if err != nil || was != nil {
		t.Fatalf("%+v, %v", was, err)
	}
	if err := p.PublishCommands(t.Context(), p.trust, c, e); err != nil {
		t.Fatal(err)
	}
	if _, is, err := p.CurrentCommands(t.Context(), p.trust, "device/gw"); err != nil || is == nil || is.Serial != list.Serial {
		t.Errorf("%+v, %v", is, err)
	}
	if c, is, err := p.CurrentCommands(t.Context(), p.trust, "commands/stable"); err != nil || is != nil || c.Err != nil {
		t.Errorf("%+v, %v, %v", is, c.Err, err)
	}
	if _, _, err := p.CurrentCommands(t.Context(), p.trust, "device/"); err == nil {
		t.Error("a scope of nobody")
	}
	p.store.Change(DeviceCommands("gw"), func([]byte) []byte { return nil })
	if err := p.store.Put(t.Context(), DeviceCommands("other"), e.Bytes()); err != nil {
		t.Fatal(err)
	}
	if c, is, err := p.CurrentCommands(t.Context(), p.trust, "device/other"); err != nil || is != nil || !errors.Is(c.Err, ErrOther) {
		t.Errorf("what is for one gateway is taken for another: %+v, %v, %v", is, c.Err, err)
	}
}

func TestRootsAndReleases(t *testing.T) {
	p := newPlant(t)
	ctx := t.Context()
	if err := p.PublishRoot(ctx, p.trust, p.roots[0]); err != nil {
		t.Fatal(err)
	}
	second := p.trust.Root()
	second.Version = 2
	b := p.root(second)
	for range 2 { // a repeat is harmless
		if err := p.PublishRoot(ctx, p.trust, b); err != nil || p.trust.Version() != 2 {
			t.Fatalf("root %d: %v", p.trust.Version(), err)
		}
	}
	first := func() *signed.Trust {
		t.Helper()
		trust, err := signed.NewTrust(p.roots[0])
		if err != nil {
			t.Fatal(err)
		}
		return trust
	}
	second.CreatedMs++
	other := p.root(second)
	for what, trust := range map[string]*signed.Trust{"who knows root 1": first(), "who knows root 2": p.trust} {
		p.store.Change(Root(2), func([]byte) []byte { return []byte("x") })
		if err := p.PublishRoot(ctx, trust, b); err != nil {
			t.Errorf("what is no root keeps one away, of %s: %v", what, err)
		}
		if there, _, err := p.Read(ctx, Root(2), ""); err != nil || !bytes.Equal(there, b) {
			t.Errorf("%s: %q, %v", what, there, err)
		}
	}
	p.store.Change(Root(2), func([]byte) []byte { return other })
	if err := p.PublishRoot(ctx, first(), b); !errors.Is(err, ErrLost) {
		t.Errorf("a root that gateways may have taken is replaced: %v", err)
	}
	if err := p.PublishRoot(ctx, p.trust, p.roots[0]); !errors.Is(err, signed.ErrChain) {
		t.Errorf("%v", err)
	}

	a, err := Cut(strings.NewReader("a program"), document.ChunkBytesDefault)
	if err != nil {
		t.Fatal(err)
	}
	a.Backend, a.Arch = "self", "arm64"
	r := &document.Release{Fleet: "plant", Version: "1.2.3", CreatedMs: now, Artifacts: []document.Artifact{a}}
	payload, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.PublishRelease(ctx, p.trust, p.seal(signed.TypeRelease, payload, p.keys[signed.RoleDeploy])); !errors.Is(err, signed.ErrThreshold) {
		t.Errorf("%v", err)
	}
	name, err := p.PublishRelease(ctx, p.trust, p.seal(signed.TypeRelease, payload, p.keys[signed.RoleRelease]))
	if err != nil {
		t.Fatal(err)
	}
	p.store.Change(Release(name), func(b []byte) []byte { return b[:len(b)/2] })
	if _, err := p.PublishRelease(ctx, p.trust, p.seal(signed.TypeRelease, payload, p.keys[signed.RoleRelease])); err != nil {
		t.Fatal(err)
	}
	if got, _, err := p.Release(ctx, p.trust, name); err != nil || got.Version != "1.2.3" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLease(t *testing.T) {
	p := newPlant(t)
	ctx := t.Context()
	l, err := p.Lease(ctx, "stable", "alice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lease(ctx, "stable", "bob"); !errors.Is(err, ErrLeased) || !strings.Contains(err.Error(), "alice, for another 10m0s") {
		t.Errorf("%v", err)
	}
	if _, err := p.Lease(ctx, "beta", "bob"); err != nil {
		t.Error(err)
	}
	if err := l.Free(ctx); err != nil {
		t.Fatal(err)
	}
	killed, err := p.Lease(ctx, "stable", "bob")
	if err != nil {
		t.Fatal(err)
	}
	p.store.Advance(leaseFor.Milliseconds() + 1)
	mine, err := p.Lease(ctx, "stable", "carol")
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Free(ctx); err != nil {
		t.Error(err)
	}
	if _, err := p.Lease(ctx, "stable", "dora"); !errors.Is(err, ErrLeased) || !strings.Contains(err.Error(), "carol") {
		t.Errorf("the one before gave away what is not his: %v", err)
	}
	if err := errors.Join(mine.Free(ctx), mine.Free(ctx)); err != nil {
		t.Error(err)
	}
	if err := p.store.Put(ctx, "_fleet/lease/odd", []byte("\x1b[31m")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lease(ctx, "odd", "bob"); !errors.Is(err, ErrLeased) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}

func TestClock(t *testing.T) {
	p := newPlant(t)
	first, err := p.Now(t.Context())
	p.store.Advance(1234)
	second, err2 := p.Now(t.Context())
	if err != nil || err2 != nil || first != now || second-first != 1234 {
		t.Errorf("%d, %d, %v, %v", first, second, err, err2)
	}
	d := Depot{bucket.OpenDirectory(t.TempDir())}
	if ms, err := d.Now(t.Context()); err != nil || ms < now-1e12 {
		t.Errorf("%d, %v", ms, err)
	}
}

// TestNamesThatDoNotCountHideNone: whoever may write to the store can write any number of names that are newer than all that count.
func TestNamesThatDoNotCountHideNone(t *testing.T) {
	p := newPlant(t)
	for serial := uint64(1); serial <= 3; serial++ {
		if err := p.publish(p.rollout(serial, nil)); err != nil {
			t.Fatal(err)
		}
	}
	replayed := p.rollout(3, nil).Bytes()
	for n := range uint64(historyMost + 1) {
		if err := p.store.Put(t.Context(), History("stable", strict.SerialMost-n), replayed); err != nil {
			t.Fatal(err)
		}
	}
	if last, releases, err := p.HistoryLast(t.Context(), p.trust, "stable"); err != nil || last != 3 || len(releases) != 1 {
		t.Errorf("%d, %q, %v", last, releases, err)
	}
}
