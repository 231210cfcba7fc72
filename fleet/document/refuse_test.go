package document

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/strict"
)

// refused checks that a document is refused both ways, with a word of why.
func refused[T any](t *testing.T, name string, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error), want string) {
	t.Helper()
	b, err := strict.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(b); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s, read: %v, want %q", name, err, want)
	}
	if _, err := encode(v); !errors.Is(err, ErrForm) {
		t.Errorf("%s, written: %v", name, err)
	}
}

func TestReleaseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Release)
		want   string
	}{
		"no fleet":                 {func(r *Release) { r.Fleet = "" }, "fleet: no name"},
		"a version that hides":     {func(r *Release) { r.Version = "1\u202e2" }, "version"},
		"no time":                  {func(r *Release) { r.CreatedMs = 0 }, "created_ms"},
		"a floor above itself":     {func(r *Release) { r.MinSecureVersion = 4 }, "min_secure_version: 4"},
		"no artifact":              {func(r *Release) { r.Artifacts = nil }, "artifacts: none"},
		"65 artifacts":             {func(r *Release) { r.Artifacts = make([]Artifact, 65) }, "more than 64"},
		"an unknown backend":       {func(r *Release) { r.Artifacts[1].Backend = "apt" }, "artifacts[1]: backend"},
		"an unknown arch":          {func(r *Release) { r.Artifacts[1].Arch = "mips" }, "artifacts[1]: arch"},
		"a board twice":            {func(r *Release) { r.Artifacts[1].Boards = []string{"a", "a"} }, "is there twice"},
		"two for the same":         {func(r *Release) { r.Artifacts[2] = r.Artifacts[0] }, "artifacts[0] and [2] are for the same gateways"},
		"two that share a board":   {func(r *Release) { r.Artifacts[2] = r.Artifacts[1] }, "artifacts[1] and [2] are for the same gateways"},
		"a digest in capitals":     {func(r *Release) { r.Artifacts[0].SHA256 = strings.ToUpper(sha) }, "sha256"},
		"a short digest":           {func(r *Release) { r.Artifacts[0].SHA256 = sha[1:] }, "sha256: 63 characters"},
		"a short digest of a part": {func(r *Release) { r.Artifacts[0].Chunks[2] = "ab" }, "chunks[2]"},
		"a chunk too few":          {func(r *Release) { r.Artifacts[0].Chunks = r.Artifacts[0].Chunks[:2] }, "chunks: 2, but 262145 bytes in pieces of 131072 are 3"},
		"a chunk too many":         {func(r *Release) { r.Artifacts[0].Chunks = append(r.Artifacts[0].Chunks, sha) }, "chunks: 4"},
		"bytes of fewer chunks":    {func(r *Release) { r.Artifacts[0].Bytes-- }, "are 2"},
		"no bytes":                 {func(r *Release) { r.Artifacts[0].Bytes = 0 }, "bytes: 0"},
		"negative bytes":           {func(r *Release) { r.Artifacts[0].Bytes = -1 }, "bytes: -1"},
		"bytes that overflow":      {func(r *Release) { r.Artifacts[0].Bytes = 1<<63 - 1 }, "bytes: 9223372036854775807"},
		"small chunks":             {func(r *Release) { r.Artifacts[0].ChunkBytes = 1024 }, "chunk_bytes"},
		"chunks of nothing":        {func(r *Release) { r.Artifacts[0].ChunkBytes = 0 }, "chunk_bytes"},
		"large chunks":             {func(r *Release) { r.Artifacts[0].ChunkBytes = 8 << 20 }, "chunk_bytes"},
		"it reads nothing":         {func(r *Release) { r.Artifacts[0].Compat.State["x"] = Versions{3, 2, 2} }, "compat.state.x"},
		"it cannot read itself":    {func(r *Release) { r.Artifacts[0].Compat.Formats["x"] = Versions{1, 2, 3} }, "compat.formats.x"},
	} {
		r := aRelease()
		c.change(r)
		refused(t, name, r, (*Release).Encode, DecodeRelease, c.want)
	}
}

func TestRolloutRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Rollout)
		want   string
	}{
		"serial 0":                {func(r *Rollout) { r.Serial = 0 }, "serial: 0"},
		"a serial no double has":  {func(r *Rollout) { r.Serial = 1 << 53 }, "serial"},
		"no channel":              {func(r *Rollout) { r.Channel = "" }, "channel"},
		"no id":                   {func(r *Rollout) { r.ID = "" }, "id"},
		"no release":              {func(r *Rollout) { r.Release = "" }, "release"},
		"it ends before it began": {func(r *Rollout) { r.ExpiresMs = 1 }, "expires_ms is before"},
		"negative permille":       {func(r *Rollout) { r.Permille = -1 }, "permille: -1"},
		"permille 1001":           {func(r *Rollout) { r.Permille = 1001 }, "permille: 1001"},
		"an unknown policy":       {func(r *Rollout) { r.Policy.Savepoint = "" }, "policy.savepoint"},
		"a probation of a month":  {func(r *Rollout) { r.Policy.ProbationMs = 30 * probationMsMost }, "probation_ms"},
		"a window of words":       {func(r *Rollout) { r.Policy.Window = "at night" }, "policy.window"},
		"a window at 24:00":       {func(r *Rollout) { r.Policy.Window = "22:00-24:00" }, "policy.window"},
		"a window at 12:60":       {func(r *Rollout) { r.Policy.Window = "12:60-13:00" }, "policy.window"},
		"a window of nothing":     {func(r *Rollout) { r.Policy.Window = "02:00-02:00" }, "policy.window"},
		"a window with a sign":    {func(r *Rollout) { r.Policy.Window = "02:00-+4:30" }, "policy.window"},
		"a limit above all":       {func(r *Rollout) { r.Limits.MaxFailedPermille = 1001 }, "max_failed_permille"},
		"negative silence":        {func(r *Rollout) { r.Limits.SilenceMs = -1 }, "silence_ms"},
		"a wave that shrinks":     {func(r *Rollout) { r.Waves[2].Permille = 50 }, "waves[2]: permille: 50, want 51 to 1000"},
		"an empty wave":           {func(r *Rollout) { r.Waves[0].Permille = 0 }, "waves[0]"},
		"a wave that is not":      {func(r *Rollout) { r.Wave = 3 }, "wave: 3, want 0 to 2"},
		"a wave of none":          {func(r *Rollout) { r.Waves = nil }, "wave: 1, want 0 to 0"},
		"why, though not":         {func(r *Rollout) { r.WhyHalt = "x" }, "why_halted: it is not halted"},
		"why, with escapes":       {func(r *Rollout) { r.Halted, r.WhyHalt = true, "\x1b[2J" }, "does not print"},
		"a gateway twice":         {func(r *Rollout) { r.Audience.Gateways = []string{"a", "a"} }, "audience.gateways"},
		"a gateway without name":  {func(r *Rollout) { r.Audience.Gateways = []string{""} }, "audience.gateways[0]"},
	} {
		r := aRollout()
		c.change(r)
		refused(t, name, r, (*Rollout).Encode, DecodeRollout, c.want)
	}
}

// TestNobodyIsNotEverybody: an audience that was narrowed down to none is refused, not for all.
func TestNobodyIsNotEverybody(t *testing.T) {
	b, err := aRollout().Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), `"audience":{"boards":["rpi4","rpi5"]}`, `"audience":{"gateways":[]}`, 1)
	if _, err := DecodeRollout([]byte(text)); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), "audience.gateways: byte") {
		t.Error(err)
	}
}

func TestCommandsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Commands)
		want   string
	}{
		"no scope":                 {func(c *Commands) { c.Scope = "" }, "scope"},
		"another scope":            {func(c *Commands) { c.Scope = "rollout/stable" }, "scope"},
		"a scope of nobody":        {func(c *Commands) { c.Scope = "device/" }, "scope"},
		"serials that fall":        {func(c *Commands) { c.List[1].Serial = 6 }, "list[1]: serial: 6 behind 7"},
		"a serial twice":           {func(c *Commands) { c.List[1].Serial = 7 }, "list[1]: serial"},
		"a serial above":           {func(c *Commands) { c.Serial = 8 }, "serial: 8, that of the newest command is 9"},
		"an id twice":              {func(c *Commands) { c.List[1].ID = "a" }, "list[1]: id"},
		"an unknown verb":          {func(c *Commands) { c.List[0].Do = "shell" }, `list[0]: do: "shell", want one of [apply`},
		"a member of another verb": {func(c *Commands) { c.List[0].Config = "x" }, "list[0]: config: savepoint has no such member"},
		"apply of nothing":         {func(c *Commands) { c.List[1].Config = "" }, "list[1]: config: apply needs it"},
		"upgrade without release":  {func(c *Commands) { c.List[2].Release = "" }, "list[2]: release: upgrade needs it"},
		"upgrade without policy":   {func(c *Commands) { c.List[2].Policy = nil }, "list[2]: policy: upgrade needs it"},
		"upgrade to a name":        {func(c *Commands) { c.List[2].Release = "latest" }, "list[2]: release"},
		"an unknown policy":        {func(c *Commands) { c.List[2].Policy.Savepoint = "no" }, "list[2]: policy.savepoint"},
		"it expired before":        {func(c *Commands) { c.List[0].ExpiresMs = 1 }, "expires_ms is before"},
		"a pipeline that hides":    {func(c *Commands) { c.List[0].Pipeline = "\x00" }, "pipeline"},
		"a key of another kind": {func(c *Commands) {
			c.List[0] = Command{Serial: 7, ID: "a", Do: DoRotateKey, CreatedMs: 1, PublicKey: "rsa"}
		}, "public_key"},
		"65 commands": {func(c *Commands) { c.List = make([]Command, 65) }, "more than 64"},
	} {
		v := someCommands()
		c.change(v)
		refused(t, name, v, (*Commands).Encode, DecodeCommands, c.want)
	}
}

func TestReportsRefuse(t *testing.T) {
	for name, change := range map[string]func(*State){
		"no gateway": func(s *State) { s.Gateway = "" }, "a digest of words": func(s *State) { s.Digest = "none" }, "17 scopes": func(s *State) {
			for i := range 17 {
				s.Serials[strings.Repeat("x", i+1)] = 1
			}
		},
		"an upgrade of nobody": func(s *State) { s.Upgrade.Gateway = "" }, "no such serial": func(s *State) { s.Serials["x"] = 1 << 60 },
	} {
		s := aState()
		change(s)
		refused(t, name, s, (*State).Encode, DecodeState, "")
	}
	for name, change := range map[string]func(*Result){
		"an unknown result": func(r *Result) { r.Result = "maybe" }, "no scope": func(r *Result) { r.Scope = "x" }, "serial 0": func(r *Result) { r.Serial = 0 },
	} {
		r := aResult()
		change(r)
		refused(t, name, r, (*Result).Encode, DecodeResult, "")
	}
}

// TestReportsAreCleaned: what a gateway has to tell is told, whatever characters an error has; what it tells does nothing to a terminal.
func TestReportsAreCleaned(t *testing.T) {
	r := aResult()
	r.Detail = "open \x1b[2J\xff: " + strings.Repeat("é", detailMost)
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeResult(b)
	if err != nil || len(got.Detail) > detailMost || !strings.HasPrefix(got.Detail, "open \ufffd[2J\ufffd: éé") || !strings.HasSuffix(got.Detail, "é…") {
		t.Errorf("%v: %.40q… of %d bytes", err, got.Detail, len(got.Detail))
	}
	s := aState()
	s.Problems = append(s.Problems, "\a", strings.Repeat("x", 5000))
	s.Upgrade.Why = "\r\n"
	if b, err = s.Encode(); err != nil {
		t.Fatal(err)
	}
	if back, err := DecodeState(b); err != nil || back.Problems[1] != "\ufffd" || back.Upgrade.Why != "\ufffd\n" || s.Upgrade.Why != "\r\n" {
		t.Errorf("%v: %q", err, back.Problems)
	}
	raw, err := strict.Encode(r)
	if err == nil {
		_, err = DecodeResult(raw)
	}
	if err == nil {
		t.Error("one that was not cleaned is read")
	}
}

func TestHours(t *testing.T) {
	p := Policy{Window: "22:05-04:30"}
	from, until, err := p.Hours()
	if err != nil || from.Minutes() != 22*60+5 || until.Minutes() != 4*60+30 {
		t.Errorf("%v to %v: %v", from, until, err)
	}
}

func TestLength(t *testing.T) {
	a := aRelease().Artifacts[0]
	sum := int64(0)
	for i := range a.Chunks {
		sum += a.Length(i)
	}
	if sum != a.Bytes || a.Length(2) != 1 || a.Length(0) != a.ChunkBytes {
		t.Errorf("%d of %d bytes", sum, a.Bytes)
	}
}
