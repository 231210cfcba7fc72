package document

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// cohortOfGw17 was worked out by Python's hashlib.
const cohortOfGw17 = 891

var sha = strings.Repeat("0123456789abcdef", 4)

func aRelease() *Release {
	compat := Compat{Formats: map[string]Versions{"journal": {1, 2, 2}, "outbox": {1, 1, 1}}, State: map[string]Versions{"window": {1, 3, 3}}}
	artifact := func(arch string, boards ...string) Artifact {
		return Artifact{Backend: "self", Arch: arch, Boards: boards, Bytes: 2*ChunkBytesDefault + 1, SHA256: sha, ChunkBytes: ChunkBytesDefault, Chunks: []string{sha, sha, sha}, Compat: compat}
	}
	return &Release{Fleet: "plant", Version: "1.4.0", CreatedMs: 1_780_000_000_000, SecureVersion: 3, MinSecureVersion: 2,
		Artifacts: []Artifact{artifact("arm64"), artifact("arm64", "rpi4", "rpi5"), artifact("arm", "moxa-uc8210")}}
}

func aRollout() *Rollout {
	return &Rollout{Fleet: "plant", Serial: 12, Channel: "stable", ID: "2026-11", Release: sha, CreatedMs: 1_780_000_000_000, ExpiresMs: 1_790_000_000_000, Permille: 50,
		Audience: Audience{Boards: []string{"rpi4", "rpi5"}}, Policy: Policy{Savepoint: "required", ProbationMs: 600_000, Window: "22:00-04:30"},
		Limits: Limits{MaxFailedPermille: 20, MinReports: 10, SilenceMs: 3_600_000}, Waves: []Wave{{10, 0}, {50, 86_400_000}, {1000, 86_400_000}}, Wave: 1, WaveMs: 1_780_000_000_000}
}

func someCommands() *Commands {
	return &Commands{Fleet: "plant", Scope: "device/gw-17", Serial: 9, CreatedMs: 1_780_000_000_000, List: []Command{
		{Serial: 7, ID: "a", Do: DoSavepoint, CreatedMs: 1_780_000_000_000, Pipeline: "cold-chain", Upload: true},
		{Serial: 8, ID: "b", Do: DoApply, CreatedMs: 1_780_000_000_000, Config: "gateway: gw-17\n", DryRun: true},
		{Serial: 9, ID: "c", Do: DoUpgrade, CreatedMs: 1_780_000_000_000, Release: sha, Policy: &Policy{Savepoint: "best-effort"}},
	}}
}

func aProgress() *Progress {
	return &Progress{Gateway: "gw-17", Rollout: "2026-11", Release: sha, State: "probation", From: "1.3.2", To: "1.4.0", AtMs: 1, Saved: []string{"a/b"}}
}

func aState() *State {
	return &State{Gateway: "gw-17", Channel: "stable", Board: "rpi4", Arch: "arm64", Version: "1.3.2", Digest: sha, Root: 1, Serials: map[string]uint64{"rollout/stable": 12},
		Upgrade: aProgress(), Pipeline: map[string]string{"cold-chain": "running"}, Problems: []string{"disk full"}, Refused: map[string]uint64{"replayed": 1}, AtMs: 1}
}

func aResult() *Result {
	return &Result{Gateway: "gw-17", Scope: "device/gw-17", Serial: 7, ID: "a", Do: DoSavepoint, Result: ResultDone, Detail: "one\n\ttwo", AtMs: 1, Files: []string{"x"}}
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		value  interface{ Encode() ([]byte, error) }
		decode func([]byte) (any, error)
	}{
		{aRelease(), func(b []byte) (any, error) { return DecodeRelease(b) }},
		{aRollout(), func(b []byte) (any, error) { return DecodeRollout(b) }},
		{someCommands(), func(b []byte) (any, error) { return DecodeCommands(b) }},
		{aState(), func(b []byte) (any, error) { return DecodeState(b) }},
		{aProgress(), func(b []byte) (any, error) { return DecodeProgress(b) }},
		{aResult(), func(b []byte) (any, error) { return DecodeResult(b) }},
	} {
		b, err := c.value.Encode()
		if err != nil {
			t.Errorf("%T: %v", c.value, err)
			continue
		}
		got, err := c.decode(b)
		if err != nil || !reflect.DeepEqual(got, c.value) {
			t.Errorf("%T: %v\n got %+v\nwant %+v", c.value, err, got, c.value)
		}
		for n := range b {
			if _, err := c.decode(b[:n]); !errors.Is(err, ErrForm) {
				t.Fatalf("%T cut to %d bytes: %v", c.value, n, err)
			}
		}
	}
}

func TestFind(t *testing.T) {
	r := aRelease()
	for _, c := range []struct {
		backend, arch, board string
		want                 int
	}{{"self", "arm64", "rpi4", 1}, {"self", "arm64", "verdin", 0}, {"self", "arm64", "", 0}, {"self", "arm", "moxa-uc8210", 2}} {
		if got, err := r.Find(c.backend, c.arch, c.board); got != &r.Artifacts[c.want] {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	for _, c := range [][3]string{{"self", "arm", "rpi4"}, {"rauc", "arm64", "rpi4"}, {"self", "amd64", ""}, {"self", "arm", ""}} {
		_, err := r.Find(c[0], c[1], c[2])
		if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "it has self for arm64 (any board); self for arm64 (rpi4, rpi5); self for arm (moxa-uc8210)") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestIncludes(t *testing.T) {
	if got := Cohort("2026-11", "gw-17"); got != cohortOfGw17 {
		t.Errorf("cohort %d, want %d", got, cohortOfGw17)
	}
	r := &Rollout{ID: "2026-11", Permille: cohortOfGw17}
	if r.Includes("gw-17", "rpi4") {
		t.Error("in at its own permille")
	}
	r.Permille++
	if !r.Includes("gw-17", "rpi4") || !r.Includes("gw-17", "") {
		t.Error("not in above its permille")
	}
	r.Audience = Audience{Boards: []string{"rpi4"}}
	if !r.Includes("gw-17", "rpi4") || r.Includes("gw-17", "rpi5") || r.Includes("gw-17", "") {
		t.Error("boards are not asked")
	}
	r.Audience = Audience{Gateways: []string{"gw-18"}, Boards: []string{"rpi4"}}
	if r.Includes("gw-17", "rpi4") {
		t.Error("gateways are not asked")
	}
	for r.Permille, r.Audience = 0, (Audience{}); r.Permille <= 1000; r.Permille += 250 {
		in := 0
		for i := range 10_000 {
			if r.Includes(strings.Repeat("x", i%7)+string(rune('a'+i%26))+sha[:i%60]+strings.Repeat("y", i/26), "") {
				in++
			}
		}
		if d := in - 10*r.Permille; d < -300 || d > 300 {
			t.Errorf("at %d of a thousand, %d of 10,000 are in", r.Permille, in)
		}
	}
}
