package depot

import (
	"testing"

	"github.com/weirstream/weir/fleet/strict"
)

// TestAheadOf: what gateways say moves the next serial, and a lie moves it no further than a store can be behind.
func TestAheadOf(t *testing.T) {
	for _, c := range []struct {
		what   string
		claims map[string]Claim
		want   Ahead
	}{
		{"nobody has said anything", nil, Ahead{Holds: 7, Most: 7}},
		{"all are behind or level", map[string]Claim{"a": {7, true}, "b": {1, true}}, Ahead{Holds: 7, Most: 7}},
		{"two are ahead", map[string]Claim{"a": {9, true}, "b": {12, false}, "c": {7, true}}, Ahead{Holds: 7, Most: 12, Gateways: 2, Verified: 1, Example: "b"}},
		{"as far as is believed", map[string]Claim{"a": {7 + ReachMost, false}}, Ahead{Holds: 7, Most: 7 + ReachMost, Gateways: 1, Example: "a"}},
		{"lies", map[string]Claim{"a": {8, true}, "y": {8 + ReachMost, true}, "x": {strict.SerialMost, false}}, Ahead{Holds: 7, Most: 8, Gateways: 1, Verified: 1, Example: "a", Beyond: 2, Liar: "x"}},
	} {
		if got := AheadOf(7, c.claims); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	if a := AheadOf(strict.SerialMost, map[string]Claim{"a": {strict.SerialMost, true}}); a.Most != strict.SerialMost || a.Gateways+a.Beyond != 0 {
		t.Errorf("%+v", a)
	}
}

// TestClaimsOfKeysThatWereReplaced count no more: gateways forget them when they have the newer root.
func TestClaimsOfKeysThatWereReplaced(t *testing.T) {
	p := newPlant(t)
	all := map[string]Told{"old": {Root: 0, Serials: Serials{Rollout: 900}}, "new": {Root: 1, Verified: true, Serials: Serials{Rollout: 3}}, "silent": {Root: 1}}
	got := Claims(all, p.trust, func(s *Serials) uint64 { return s.Rollout })
	if len(got) != 1 || got["new"] != (Claim{3, true}) {
		t.Errorf("%v", got)
	}
}
