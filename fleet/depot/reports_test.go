package depot

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// state puts what a gateway says of itself.
func (p *plant) state(at, gateway, board string, key signed.KeySigner) {
	p.t.Helper()
	b, err := (&document.State{Gateway: gateway, Board: board, Arch: "arm64", Version: "1.0", AtMs: now, Serials: map[string]uint64{}}).Encode()
	p.says(State(at), b, err, signed.TypeState, key)
}

// fares puts how a gateway fares in r1.
func (p *plant) fares(at, gateway, outcome string, key signed.KeySigner) {
	p.t.Helper()
	b, err := (&document.Progress{Gateway: gateway, Rollout: "r1", Release: sha, State: "committed", Outcome: outcome, AtMs: now}).Encode()
	p.says(Progress("r1", at), b, err, signed.TypeProgress, key)
}

func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	p := newPlant(t)
	key := aKey(t)
	for i := range 50 {
		p.fares(fmt.Sprint("gw", i), fmt.Sprint("gw", i), "committed", key)
	}
	r := &Reader{Depot: p.Depot}
	read := func(want int) map[string]Told {
		t.Helper()
		all, s, err := r.Progress(t.Context(), "r1")
		if err != nil || s.Read != want || len(all) != 50 || s.Unverified != 50 {
			t.Fatalf("read %d, want %d, of %d: %+v, %v", s.Read, want, len(all), s, err)
		}
		return all
	}
	read(50)
	read(50) // written within the store's last second: they may have changed
	p.store.Advance(10_000)
	p.fares("gw3", "gw3", "failed", key)
	if all := read(50); all["gw3"].Outcome != "failed" || all["gw4"].Outcome != "committed" || all["gw3"].WrittenMs != now+10_000 {
		t.Errorf("%+v", all["gw3"])
	}
	p.fares("gw3", "gw3", "committed", key) // in the same second, as many bytes: failed and gated would be
	read(1)
	p.store.Advance(10_000)
	p.fares("gw4", "gw4", "failed", key)
	if all := read(2); all["gw4"].Outcome != "failed" {
		t.Errorf("%+v", all["gw4"])
	}
	p.store.Change(Progress("r1", "gw5"), func([]byte) []byte { return nil })
	if all := read(1); all["gw5"].Outcome != "committed" {
		t.Errorf("a report that was removed is forgotten: %+v", all["gw5"])
	}
}

// TestYoungReports: two writes of the same size within one of the store's seconds.
func TestYoungReports(t *testing.T) {
	for _, fault := range []bool{false, true} {
		p := newPlant(t)
		r := &Reader{Depot: p.Depot, fault: plantedReader{stale: fault}}
		for _, outcome := range []string{"expired", "is well"} {
			p.fares("gw", "gw", outcome, aKey(t))
			all, _, err := r.Progress(t.Context(), "r1")
			if err != nil {
				t.Fatal(err)
			}
			if found := all["gw"].Outcome != outcome; found != (fault && outcome == "is well") {
				t.Errorf("fault %v: %+v", fault, all["gw"])
			}
		}
	}
}

func (p *plant) vouched(gateways ...string) (*Reader, map[string]signed.KeySigner) {
	r, keys := &Reader{Depot: p.Depot, Keys: map[string]ed25519.PublicKey{}}, map[string]signed.KeySigner{}
	for _, g := range gateways {
		keys[g] = aKey(p.t)
		r.Keys[g] = public(keys[g])
	}
	return r, keys
}

// hostile are reports that must change nothing.
var hostile = map[string]func(p *plant, keys map[string]signed.KeySigner){
	"wrong key":           func(p *plant, _ map[string]signed.KeySigner) { p.fares("gw1", "gw1", "failed", aKey(p.t)) },
	"speaks for another":  func(p *plant, k map[string]signed.KeySigner) { p.fares("gw1", "gw2", "failed", k["gw1"]) },
	"one that was copied": func(p *plant, k map[string]signed.KeySigner) { p.fares("gw1", "gw2", "failed", k["gw2"]) },
	"not JSON":            func(p *plant, _ map[string]signed.KeySigner) { p.put(Progress("r1", "gw1"), []byte("{")) },
	"empty":               func(p *plant, _ map[string]signed.KeySigner) { p.put(Progress("r1", "gw1"), nil) },
	"too large": func(p *plant, _ map[string]signed.KeySigner) {
		p.put(Progress("r1", "gw1"), make([]byte, signed.BytesMax+1))
	},
	"another type": func(p *plant, k map[string]signed.KeySigner) {
		b, err := (&document.State{Gateway: "gw1", Serials: map[string]uint64{}}).Encode()
		p.says(Progress("r1", "gw1"), b, err, signed.TypeState, k["gw1"])
	},
	"another roll-out": func(p *plant, k map[string]signed.KeySigner) {
		b, err := (&document.Progress{Gateway: "gw1", Rollout: "r2", Release: sha, Outcome: "failed"}).Encode()
		p.says(Progress("r1", "gw1"), b, err, signed.TypeProgress, k["gw1"])
	},
	"changed": func(p *plant, k map[string]signed.KeySigner) {
		p.fares("gw1", "gw1", "failed", k["gw1"])
		p.store.Change(Progress("r1", "gw1"), func(b []byte) []byte { return []byte(strings.Replace(string(b), "A", "B", 1)) })
	},
}

func (p *plant) put(name string, body []byte) {
	p.t.Helper()
	if err := p.store.Put(p.t.Context(), name, body); err != nil {
		p.t.Fatal(err)
	}
}

// TestHostileReports: they are counted, and what was known stays; with a fault planted, one of them changes something.
func TestHostileReports(t *testing.T) {
	for _, fault := range []plantedReader{{}, {trusting: true}, {anyName: true}} {
		changed := 0
		for what, do := range hostile {
			p := newPlant(t)
			r, keys := p.vouched("gw1", "gw2")
			r.fault = fault
			p.fares("gw1", "gw1", "committed", keys["gw1"])
			p.fares("gw2", "gw2", "committed", keys["gw2"])
			if _, s, err := r.Progress(t.Context(), "r1"); err != nil || fault == (plantedReader{}) && s.Unverified+len(s.Refused) > 0 {
				t.Fatalf("%+v, %v", s, err)
			}
			p.store.Advance(5000)
			do(p, keys)
			p.put(Prefix+"rollout/r1/no~name", []byte("x"))
			all, s, err := r.Progress(t.Context(), "r1")
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if all["gw1"].Outcome != "committed" || len(all) != 2 {
				changed++
				if fault == (plantedReader{}) {
					t.Errorf("%s: %+v", what, all)
				}
			} else if len(s.Refused) != 1 || !strings.HasPrefix(s.Example, "gw1: ") {
				t.Errorf("%s: refused %v, %q", what, s.Refused, s.Example)
			}
		}
		if fault != (plantedReader{}) && changed == 0 {
			t.Errorf("%+v is not found", fault)
		}
	}
}

// TestGateways: what else lies beside their states is passed over, also in pages.
func TestGateways(t *testing.T) {
	p := newPlant(t)
	r, keys := p.vouched("gw1", "gw2")
	for i := range 2500 {
		p.put(Result("gw1", "device/gw1", 1, uint64(i+1)), []byte("x"))
	}
	p.put(File("gw2", "a/b"), []byte("x"))
	p.state("gw1", "gw1", "rpi4", keys["gw1"])
	p.state("gw2", "gw2", "revpi", keys["gw2"])
	p.state("gw3", "gw3", "rpi4", aKey(t))
	p.state("gw4", "gw1", "rpi4", keys["gw1"])
	first := p.store.Requests()
	all, _, err := r.Gateways(t.Context(), false)
	if lists := p.store.Requests() - first; err != nil || len(all) != 4 || all["gw1"].WrittenMs != now || lists > 3 {
		t.Errorf("%+v in %d requests, %v", all, lists, err)
	}
	all, s, err := r.Gateways(t.Context(), true)
	if err != nil || len(all) != 3 || all["gw1"].Board != "rpi4" || !all["gw1"].Verified || all["gw3"].Verified || s.Unverified != 1 || s.Refused[errNames.Error()] != 1 {
		t.Errorf("%+v, %+v, %v", all, s, err)
	}
	p.store.Fault = func(r buckettest.Request) buckettest.Fault {
		if r.Verb == "get" {
			return buckettest.Lost
		}
		return buckettest.None
	}
	if _, _, err := r.Gateways(t.Context(), true); !errors.Is(err, buckettest.ErrCut) {
		t.Errorf("half of what there is would be taken for all: %v", err)
	}
}
