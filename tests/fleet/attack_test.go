package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/central"
)

// TestAttacks: who may write to the store and to the broker, and has stolen a deploy key, directs nobody. What is refused is counted and told once, and the pipelines work on.
func TestAttacks(t *testing.T) {
	needMachine(t)
	if !long() {
		t.Parallel()
	}
	p := newAttacked(t, 2)
	for _, a := range p.attacks() {
		for _, problem := range p.attack(a, p.gateways) {
			t.Errorf("%s: %s", a.name, problem)
		}
	}
	p.stolenKey()
	p.otherRelease()
	p.otherPiece()
	p.forged()
	for _, problem := range p.flood(p.gateways[0]) {
		t.Error(problem)
	}
	// The fleet is directed as ever behind all of that.
	p.deploy(0, "published", "fleet", "rollout", "1.1.0", "--id", "behind", "--waves", "100%", "--min-reports", "1")
	p.ring()
	p.each("it has the release", p.gateways, runsVersion("1.1.0"))
	for _, problem := range p.finish(p.gateways) {
		t.Error(problem)
	}
}

// newAttacked is a plant with some history: roll-outs that were for nobody, commands.
func newAttacked(t *testing.T, n int) *plant {
	t.Helper()
	p := newPlant(t, n, attackTalk, attackPoll)
	p.release("1.1.0", "")
	p.start(p.gateways)
	p.talk()
	p.known()
	p.deploy(0, "published", "fleet", "rollout", "1.1.0", "--id", "nobody", "--gateway", "nobody", "--waves", "50%:1h,100%")
	p.deploy(0, "", "fleet", "halt")
	p.deploy(0, "", "fleet", "resume")
	for _, g := range p.gateways {
		p.deploy(0, "published", "fleet", "command", "diagnostics", g.name, "--id", "first")
	}
	for _, g := range p.gateways {
		p.result(g, "first", document.ResultDone)
	}
	return p
}

// attackPoll: with a doorbell it is looked each 12 × 30 ms, give or take a fifth.
const (
	attackPoll = "WEIR_FLEET_POLL=30ms"
	looksLeast = 12 * 30 * time.Millisecond * 4 / 5
)

// attackTalk is how often devices send while somebody attacks.
const attackTalk = 250 * time.Millisecond

// attack is a document that must not count.
type attack struct {
	name, reason string
	where        func(g *gateway) string
	body         func(g *gateway) []byte
}

// attacks are what lies in the store in the place of what the operator has put there.
func (p *plant) attacks() []attack {
	rollout := func(*gateway) string { return depot.Rollout("stable") }
	own := func(g *gateway) string { return depot.DeviceCommands(g.name) }
	current := p.read(depot.Rollout("stable"))
	newest := p.history()[len(p.history())-1]
	changed := func(change func(*document.Rollout), by string) func(*gateway) []byte {
		return func(*gateway) []byte {
			r := *newest
			change(&r)
			payload, err := r.Encode()
			p.must(err)
			return p.seal(signed.TypeRollout, payload, by)
		}
	}
	return []attack{
		{"an old roll-out again", channel.ReasonReplay, rollout, func(*gateway) []byte { return p.read(depot.History("stable", 1)) }},
		{"a truncated roll-out", channel.ReasonForm, rollout, func(*gateway) []byte { return current[:len(current)/2] }},
		{"commands in the place of the roll-out", channel.ReasonType, rollout, func(g *gateway) []byte { return p.read(own(g)) }},
		{"two roll-outs of one serial", channel.ReasonConflict, rollout, changed(func(r *document.Rollout) { r.ID = "another" }, "deploy")},
		{"a roll-out for another channel", channel.ReasonOther, rollout, changed(func(r *document.Rollout) { r.Serial++; r.Channel = "canary" }, "deploy")},
		{"a roll-out of another fleet", channel.ReasonOther, rollout, changed(func(r *document.Rollout) { r.Serial++; r.Fleet = "elsewhere" }, "deploy")},
		{"a roll-out signed by release", channel.ReasonThreshold, rollout, changed(func(r *document.Rollout) { r.Serial++ }, "release")},
		{"another gateway's commands", channel.ReasonOther, own, func(g *gateway) []byte {
			other := p.gateways[0]
			if g == other {
				other = p.gateways[len(p.gateways)-1]
			}
			return p.commandsFor(other)
		}},
	}
}

// commandsFor is what the operator might publish next for a gateway: it is good, where it belongs.
func (p *plant) commandsFor(g *gateway) []byte {
	list := &document.Commands{Fleet: "plant", Scope: document.ScopeDevice + g.name, Serial: 9, CreatedMs: 1_780_000_000_000, List: []document.Command{{Serial: 9, ID: "swapped", Do: document.DoStop, CreatedMs: 1_780_000_000_000}}}
	payload, err := list.Encode()
	p.must(err)
	return p.seal(signed.TypeCommands, payload, "deploy")
}

func (p *plant) read(name string) []byte {
	p.t.Helper()
	b, _, err := p.depot.Bucket.Get(p.t.Context(), name)
	p.must(err)
	return b
}

func (p *plant) put(name string, body []byte) {
	p.t.Helper()
	p.must(p.depot.Bucket.Put(p.t.Context(), name, body))
}

// seal signs with a key of the fleet's, as who has stolen it can.
func (p *plant) seal(typ string, payload []byte, role string) []byte {
	p.t.Helper()
	key, err := signed.ReadPrivate(p.at("keys/" + role + "-1.key"))
	p.must(err)
	e, err := signed.Seal(p.t.Context(), typ, payload, signed.KeySigner(key))
	p.must(err)
	return e.Bytes()
}

// toldInAnHour is how many documents of one place are told of within an hour; what comes behind is counted alone.
const toldInAnHour = 5

// attack puts the document in its place and takes it away again, twice. It tells where that was not refused, counted each time and told once.
func (p *plant) attack(a attack, list []*gateway) (problems []string) {
	p.t.Helper()
	before, good, logged := map[*gateway]*api.FleetStatus{}, map[string][]byte{}, map[*gateway]int{}
	for _, g := range list {
		good[a.where(g)] = p.read(a.where(g))
		before[g], logged[g] = p.fleetOf(g), refusals(g)
	}
	for range 2 {
		placed := map[string]bool{} // gateways of a channel share a place
		for _, g := range list {
			if name := a.where(g); !placed[name] {
				placed[name] = true
				p.put(name, a.body(g))
			}
		}
		p.looks(list, 2)
		for name, body := range good {
			p.put(name, body)
		}
		p.looks(list, 2)
	}
	for _, g := range list {
		s := p.fleetOf(g)
		if n := s.Refused[a.reason] - before[g].Refused[a.reason]; n != 2 {
			problems = append(problems, fmt.Sprintf("%s has refused it %d times for %q, want 2: %v", g.name, n, a.reason, s.Refused))
		}
		place := g.name + " " + a.where(g)
		want := 1
		if p.shown[place]++; p.shown[place] > toldInAnHour {
			want = 0
		}
		if n := refusals(g) - logged[g]; n != want {
			problems = append(problems, fmt.Sprintf("%s tells of it %d times, want %d", g.name, n, want))
		}
		if fmt.Sprint(s.Serials) != fmt.Sprint(before[g].Serials) {
			problems = append(problems, fmt.Sprintf("%s goes by %v, and went by %v", g.name, s.Serials, before[g].Serials))
		}
		var metrics bytes.Buffer
		p.must(api.Dial(filepath.Join(g.root, "var/lib/weir/weir.sock")).Metrics(p.t.Context(), &metrics))
		if want := fmt.Sprintf("weir_fleet_refused_total{reason=%q} %d\n", a.reason, s.Refused[a.reason]); !strings.Contains(metrics.String(), want) && s.Refused[a.reason] > 0 {
			problems = append(problems, fmt.Sprintf("the metrics of %s have no %s", g.name, want))
		}
		if st := g.status(p.t.Context()); !runs(st) {
			problems = append(problems, g.name+" does not work on: "+standingOf(st))
		}
	}
	return problems
}

// refusals is how often a gateway's log tells of a document that it has refused.
func refusals(g *gateway) int {
	b, _ := os.ReadFile(g.log())
	return bytes.Count(b, []byte("fleet document refused"))
}

func (p *plant) fleetOf(g *gateway) (s *api.FleetStatus) {
	p.t.Helper()
	p.each("it answers", []*gateway{g}, func(_ *gateway, st *api.Status) bool { s = st.Fleet; return s != nil })
	return s
}

// looks waits until each has looked so often once more.
func (p *plant) looks(list []*gateway, n uint64) {
	p.t.Helper()
	from := map[*gateway]uint64{}
	for _, g := range list {
		from[g] = p.fleetOf(g).Polls
	}
	p.each("it has looked again", list, func(g *gateway, s *api.Status) bool { return s.Fleet != nil && s.Fleet.Polls >= from[g]+n })
}

// stolenKey: a deploy key cannot make a release.
func (p *plant) stolenKey() {
	p.t.Helper()
	sha := p.history()[0].Release
	e, err := signed.Parse(p.read(depot.Release(sha)))
	p.must(err)
	r, err := document.DecodeRelease(e.Payload)
	p.must(err)
	r.CreatedMs++ // another one
	payload, err := r.Encode()
	p.must(err)
	forged := digest(payload)
	p.put(depot.Release(forged), p.seal(signed.TypeRelease, payload, "deploy"))
	p.refuseRelease("thief", forged, channel.ReasonThreshold)
}

// otherRelease: one release does not lie in another one's place.
func (p *plant) otherRelease() {
	p.t.Helper()
	real := p.history()[0].Release
	other := digest([]byte("a release that the operator means"))
	p.put(depot.Release(other), p.read(depot.Release(real)))
	p.refuseRelease("exchanged", other, channel.ReasonOther)
}

// refuseRelease publishes a roll-out of a release that must not count, as a thief of the deploy key.
func (p *plant) refuseRelease(id, sha, reason string) {
	p.t.Helper()
	list := p.history()
	r := *list[len(list)-1]
	r.Serial, r.ID, r.Release, r.Permille, r.Wave, r.Waves, r.Halted, r.WhyHalt, r.Audience = r.Serial+1, id, sha, 1000, 0, nil, false, "", document.Audience{}
	payload, err := r.Encode()
	p.must(err)
	before := map[*gateway]uint64{}
	logged := map[*gateway]int{}
	for _, g := range p.gateways {
		before[g], logged[g] = p.fleetOf(g).Refused[reason], refusals(g)
	}
	p.put(depot.History("stable", r.Serial), p.seal(signed.TypeRollout, payload, "deploy"))
	p.put(depot.Rollout("stable"), p.seal(signed.TypeRollout, payload, "deploy"))
	p.each("it knows "+id, p.gateways, func(_ *gateway, s *api.Status) bool { return s.Fleet.Rollout == id })
	p.looks(p.gateways, 3)
	for _, g := range p.gateways {
		s := g.status(p.t.Context())
		if !runs(s) || s.Version != factoryVersion || s.Upgrade != nil {
			p.t.Errorf("%s: %s has begun with a release that nobody has signed: %s", id, g.name, standingOf(s))
		}
		if n, told := s.Fleet.Refused[reason]-before[g], refusals(g)-logged[g]; n != 1 || told != 1 {
			p.t.Errorf("%s: %s has refused it %d times for %q, and tells of it %d times, want 1 and 1: %v", id, g.name, n, reason, told, s.Fleet.Refused)
		}
	}
}

// otherPiece: a piece of a program that is another one in the store is never part of a program. The gateway says so, once, and goes on as it was when the roll-out is halted.
func (p *plant) otherPiece() {
	p.t.Helper()
	sha := p.release("1.2.0", "")
	e, err := signed.Parse(p.read(depot.Release(sha)))
	p.must(err)
	r, err := document.DecodeRelease(e.Payload)
	p.must(err)
	chunks := r.Artifacts[0].Chunks
	p.put(depot.Chunk(chunks[len(chunks)-1]), []byte("another piece"))
	p.deploy(0, "published", "fleet", "rollout", "1.2.0", "--id", "piece", "--waves", "100%", "--min-reports", "1")
	p.ring()
	p.each("it tells of the piece", p.gateways, func(_ *gateway, s *api.Status) bool {
		return s.Upgrade != nil && s.Upgrade.State == "fetching" && strings.Contains(s.Upgrade.Waits, "asked for again")
	})
	p.operator(0, "halted", "fleet", "halt", "--key", p.at("keys/deploy-1.key"))
	p.ring()
	p.each("it is halted", p.gateways, func(_ *gateway, s *api.Status) bool {
		return runs(s) && s.Upgrade != nil && s.Upgrade.State == "failed" && s.Version == factoryVersion
	})
	for _, g := range p.gateways {
		b, err := os.ReadFile(g.log())
		p.must(err)
		if n := strings.Count(string(b), "a piece of the new program is not to be had"); n != 1 {
			p.t.Errorf("%s tells of the piece %d times, want once", g.name, n)
		}
		if ever, _ := g.has("1.2.0"); ever {
			p.t.Errorf("%s has run what was exchanged", g.name)
		}
	}
	p.operator(1, "the store holds something else under that name", "release", "verify", "1.2.0")
}

// forged: one gateway's key does not speak for another.
func (p *plant) forged() {
	p.t.Helper()
	pins := p.at("device-keys")
	p.operator(0, fmt.Sprintf("%d keys added", len(p.gateways)), "fleet", "devices", "--pin", pins)
	last := len(p.gateways) - 1
	thief, victim := p.gateways[0], p.gateways[last]
	b, err := os.ReadFile(filepath.Join(thief.root, "var/lib/weir/identity/key"))
	p.must(err)
	key, err := central.ParseKey(b)
	p.must(err)
	history := p.history()
	r := history[len(history)-1]
	told := &document.Progress{Gateway: victim.name, Rollout: r.ID, Release: r.Release, State: "rolled back", Outcome: "rolled back", Why: "forged", From: "1", To: "2", AtMs: 1}
	payload, err := told.Encode()
	p.must(err)
	e, err := signed.Seal(p.t.Context(), signed.TypeProgress, payload, signed.KeySigner(key))
	p.must(err)
	was := p.standing("--device-keys", pins)
	p.put(depot.Progress(r.ID, victim.name), e.Bytes())
	if s := p.standing(); s.Verdict.Counts.RolledBack != 1 { // whoever does not know the keys believes it: the forged report is one that would count
		p.t.Errorf("without keys: %+v", s)
	}
	s := p.standing("--device-keys", pins)
	if s.Verdict.Counts.RolledBack != was.Verdict.Counts.RolledBack || s.Refused["not signed by the gateway's key"] != 1 {
		p.t.Errorf("with keys: %+v", s)
	}
}

// flood rings 5,000 times, some of them with rubbish; it tells when that has a gateway look more often, or is told other than once.
func (p *plant) flood(g *gateway) (problems []string) {
	p.t.Helper()
	before, began := p.fleetOf(g), time.Now()
	const rings = 5000
	for i := range rings {
		payload := fmt.Append(nil, 1000+i)
		if i%10 == 9 {
			payload = bytes.Repeat([]byte("x"), 100)
		}
		p.must(p.bell.Publish(p.t.Context(), "fleet/stable", false, payload))
	}
	p.must(p.bell.Flush(p.t.Context()))
	p.rings = 1000 + rings
	p.each("it has heard all of them", []*gateway{g}, func(_ *gateway, s *api.Status) bool { return s.Fleet.Rings-before.Rings >= rings })
	s := p.fleetOf(g)
	if s.BadRings-before.BadRings != rings/10 {
		problems = append(problems, fmt.Sprintf("%s counts %d bad rings, want %d", g.name, s.BadRings-before.BadRings, rings/10))
	}
	if looks, most := s.Polls-before.Polls, uint64(time.Since(began)/looksLeast)+3; looks > most {
		problems = append(problems, fmt.Sprintf("%s has looked %d times in a flood of %d rings, want %d at most", g.name, looks, rings, most))
	}
	b, err := os.ReadFile(g.log())
	p.must(err)
	if n := strings.Count(string(b), "doorbell is rung all the time"); n != 1 {
		problems = append(problems, fmt.Sprintf("%s tells of the flood %d times, want once", g.name, n))
	}
	return problems
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
