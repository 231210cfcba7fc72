package config

import (
	"encoding/json"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const small = `
brokers: {plant: {url: "tcp://127.0.0.1:1883"}}
sources: {s: {mqtt: {broker: plant, topic: "c/{k}"}}}
pipelines:
  p:
    sinks: [{uid: out, from: s, file: {path: out.jsonl}}]
`

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "5s": 5 * time.Second, "1.5h": 90 * time.Minute, "1d": 24 * time.Hour,
		"1h30m": 90 * time.Minute, "10 s": 10 * time.Second, "3min": 3 * time.Minute, "1d 2h": 26 * time.Hour, "7us": 7 * time.Microsecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "-5s", "5 weeks", "s", "1e3s", "99999999999d", "5s5", "1..5s", "5S"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", time.Minute: "1m", 48 * time.Hour: "2d", 2 * time.Hour: "2h", 5 * time.Millisecond: "5ms"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", int64(d), got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "512": 512, "512B": 512, "64KiB": 64 << 10, "1GiB": 1 << 30, "1.5MiB": 3 << 19, "2kB": 2000, "1 MB": 1e6} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for bytes, want := range map[int64]string{0: "0B", 512: "512B", 64 << 10: "64KiB", 3 << 30: "3GiB", 8e12: "8TB", 2e9: "2GB", 1 << 50: "1024TiB", 5e12 + 1: "5000000000001B"} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
	for _, text := range []string{"", "-1", "1KB", "1kib", "1 G", "1e9", "99999999999TiB", "KiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		}
	}
}

// TestCase20_Names: names are accepted or refused with the reason, the same on every platform.
// deadbandOf is the small config with a deadband behind its source.
func deadbandOf(threshold string) string {
	return strings.Replace(small, "sinks: [{uid: out, from: s,",
		"steps: [{uid: d, from: s, by: [k], deadband: {value: len(k), threshold: "+threshold+"}}]\n    sinks: [{uid: out, from: d,", 1)
}

// TestNumbersWithExponents: what is plain is a number, with and without a point; what is quoted is text.
func TestNumbersWithExponents(t *testing.T) {
	for text, want := range map[string]float64{"5e-1": 0.5, "1e-9": 1e-9, "2E3": 2000, "1.5e+3": 1500, "1e3": 1000, "5": 5} {
		written, full := mustParse(t, deadbandOf(text)), mustParse(t, deadbandOf(strconv.FormatFloat(want, 'f', -1, 64)))
		if got, want := written.Pipelines[0].Graph.Steps[0].Params, full.Pipelines[0].Graph.Steps[0].Params; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{`"1e-9"`, "1e", "e9", "1e99999", "-1e-9", "0x1e3"} {
		if _, err := Parse("weir.yaml", []byte(deadbandOf(text))); err == nil {
			t.Errorf("%s is accepted as a threshold", text)
		}
	}
}

func TestCase20_Names(t *testing.T) {
	refused := map[string]string{
		"räum/1": "character '/'", "a b": "character ' '", "a'; drop table x;--": "character '\\''", "..": "begins with", "": "empty", ".a": "begins with",
		strings.Repeat("x", 255): "255 bytes", "a\u0308": "character", "$dead": "reserved", "a..b": "dot", "a.": "dot", "-a": "begins with", "a\x00b": "character", "a\\b": "character",
	}
	for name, reason := range refused {
		key, _ := json.Marshal(name)
		_, err := Parse("weir.yaml", []byte(strings.Replace(small, "  p:", "  "+string(key)+":", 1)))
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", name, err, reason)
		}
	}
	for _, name := range []string{"0000002", "r1", "CON", "räum-1", "größe", "日本", "a.b", "_x", "true", "1e3", "0x10"} {
		c := mustParse(t, strings.Replace(small, "  p:", "  "+name+":", 1))
		if got := c.Pipelines[0].Name.Value; got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// TestCase09_BadFilters: refused when the config loads.
func TestCase09_BadFilters(t *testing.T) {
	data, err := os.ReadFile("testdata/09.expect.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Bad []string `json:"config_must_be_refused_at_load"`
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.Bad) == 0 {
		t.Fatal(err)
	}
	for _, filter := range want.Bad {
		quoted, _ := json.Marshal(filter)
		_, err := Parse("weir.yaml", []byte(strings.Replace(small, `"c/{k}"`, string(quoted), 1)))
		if err == nil || !strings.Contains(err.Error(), "weir.yaml:3:") {
			t.Errorf("%q: %v", filter, err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for _, text := range []string{
		strings.Replace(small, "tcp://127.0.0.1:1883", "tcp://user:hunter2@127.0.0.1:1883", 1),
		strings.Replace(small, "tcp://127.0.0.1:1883", "tcp://user:hunter2 x@127.0.0.1:1883", 1),
		strings.Replace(small, `url: "tcp://127.0.0.1:1883"`, `url: "tcp://127.0.0.1:1883", password: hunter2`, 1),
		strings.Replace(small, "file: {path: out.jsonl}", `http: {url: "https://u:hunter2@example.com/%zz"}`, 1),
		strings.Replace(small, "file: {path: out.jsonl}", `http: {url: "https://example.com/", token: hunter2}`, 1),
	} {
		_, err := Parse("weir.yaml", []byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	c := mustParse(t, strings.Replace(small, "file: {path: out.jsonl}", `http: {url: "https://example.com/in?key=hunter2"}`, 1))
	if text := plan.Explain(&c.Pipelines[0].Spec, c.Pipelines[0].Graph); strings.Contains(text, "hunter2") {
		t.Errorf("%s", text)
	}
}

func TestFlinkNames(t *testing.T) {
	c := mustParse(t, small+`
    execution.checkpointing.interval: 3min
    execution.checkpointing.mode: AT_LEAST_ONCE
    state.backend.type: hashmap
    table.exec.state.ttl: 1 d
    checkpoint: {retained: 5}
    restart-strategy.type: failurerate
    restart-strategy.failure-rate.max-failures-per-interval: 7
`)
	p := c.Pipelines[0]
	if p.Checkpoint.Interval != 3*time.Minute || p.Checkpoint.Mode != "at-least-once" || p.Checkpoint.Retained != 5 ||
		p.State.TTL != 24*time.Hour || p.Restart.Strategy != "failure-rate" || p.Restart.MaxFailuresPerInterval != 7 || !p.AtLeastOnce {
		t.Errorf("%+v", p)
	}
	if g := p.Graph.Sinks[0].Guarantee(); g != "at-least-once" {
		t.Error(g)
	}
}

func TestFailover(t *testing.T) {
	const branches = "    steps: [{uid: f, from: s, filter: x > 1}]\n    sinks: [{uid: b, from: s, file: {path: b.txt}}, {uid: a, from: f, file: {path: a.txt}}]\n"
	for text, want := range map[string]string{
		"": "p", "    restart: {failover: full}\n": "p", "    jobmanager.execution.failover-strategy: full\n": "p",
		"    restart: {failover: region}\n": "p/a p/b", "    jobmanager.execution.failover-strategy: region\n": "p/a p/b",
	} {
		c := mustParse(t, strings.Replace(small, "    sinks: [{uid: out, from: s, file: {path: out.jsonl}}]\n", branches+text, 1))
		var names []string
		for _, r := range c.Pipelines[0].Regions() {
			names = append(names, r.Name.Value)
			if r.Graph == nil || r.Base() != "p" {
				t.Errorf("%q: region %+v", text, r)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestNoSettingWithoutEffect: what this release does not act on is refused by name, under weir's name and Flink's.
func TestNoSettingWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		small + "    execution.checkpointing.incremental: true\n":                                         `"execution.checkpointing.incremental" is not in this release`,
		small + "    state.backend.incremental: true\n":                                                   `"state.backend.incremental" is not in this release`,
		small + "    execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION\n": `retention" is not in this release`,
		small + "    checkpoint: {incremental: true}\n":                                                   `"incremental" in checkpoint is not built in this release`,
		small + "    checkpoint: {externalized: retain}\n":                                                `"externalized" in checkpoint is not built in this release`,
		small + "api: {tcp: {listen: \"127.0.0.1:8480\"}}\n":                                              `"tcp" in the api is not built in this release`,
	} {
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSecuritySwitches(t *testing.T) {
	remote := strings.Replace(small, "tcp://127.0.0.1:1883", "tcp://broker.example.com:1883", 1)
	private := strings.Replace(small, "file: {path: out.jsonl}", `http: {url: "http://[::1]:80/"}`, 1)
	for text, allow := range map[string]string{remote: "allow_plaintext", private: "allow_private"} {
		if _, err := Parse("weir.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), allow) {
			t.Errorf("%v, want %s", err, allow)
		}
		mustParse(t, text+"security: {"+allow+": true}\n")
	}
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.0.1": true, "fe80::1": true, "fd00::1": true, "169.254.169.254": true,
		"100.64.0.1": true, "0.0.0.0": true, "::ffff:127.0.0.1": true, "1.1.1.1": false, "2606:4700::1": false,
	} {
		if got := PrivateAddr(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestFileSinks(t *testing.T) {
	c := mustParse(t, small)
	if got := c.Pipelines[0].Sinks[0].File.File; got != "/var/lib/weir-files/out.jsonl" {
		t.Error(got)
	}
	for _, path := range []string{"../x", "/etc/passwd", "/var/lib/weir/journal/0", "/var/lib/weir-files", "a/../../b", "/var/lib/weir-files/../weir/x", "/var/lib/weir-filesx/y"} {
		if _, err := Parse("weir.yaml", []byte(strings.Replace(small, "out.jsonl", path, 1))); err == nil {
			t.Errorf("%s: accepted", path)
		}
	}
}

func TestGatewayFromMachineID(t *testing.T) {
	name, err := GatewayFromMachineID("0123456789abcdef0123456789abcdef\n")
	if err != nil || plan.CheckName(name, true) != "" || len(name) != 15 || strings.Contains(name, "0123") {
		t.Errorf("%q, %v", name, err)
	}
	for _, text := range []string{"", "uninitialized", strings.Repeat("0", 32), "abc"} {
		if name, err := GatewayFromMachineID(text); err == nil {
			t.Errorf("%q: %q", text, name)
		}
	}
}

// TestWhatTheSessionRefuses: what pipeline/mqtt and store/log would refuse at the start is refused when the config loads.
func TestWhatTheSessionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(small, "sources: {", `sources: {t: {mqtt: {broker: plant, topic: "c/#"}}, `, 1): "overlap",
		strings.Replace(small, `1883"}`, `1883", password_file: x}`, 1):                                 "username",
		strings.Replace(small, "brokers: {", `brokers: {idle: {url: "tcp://127.0.0.1:1884"}, `, 1):      "no source reads",
		small + "journal: {segment: 1MiB, max_bytes: 3MiB}\n":                                           "max_bytes",
		small + "journal: {segment: 300001B}\n":                                                         "4096",
	} {
		if _, err := Parse("weir.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	apart := strings.Replace(small, "sources: {", `sources: {t: {mqtt: {broker: plant, topic: "d/#"}}, `, 1)
	if c := mustParse(t, apart); len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].String(), "read by no pipeline") {
		t.Errorf("%v", c.Warnings)
	}
}

// TestFileForReplay: brokers may be missing where nothing is run.
func TestFileForReplay(t *testing.T) {
	c := mustParse(t, strings.Replace(small, `brokers: {plant: {url: "tcp://127.0.0.1:1883"}}`, "", 1))
	if missing := c.MissingBrokers(); len(missing) != 1 || missing[0].Pos.Line != 3 {
		t.Errorf("%v", missing)
	}
	if missing := mustParse(t, small).MissingBrokers(); missing != nil {
		t.Errorf("%v", missing)
	}
}

// TestHostileFiles: what would take the YAML parser's stack or minutes is refused before it.
func TestHostileFiles(t *testing.T) {
	deep := &strings.Builder{}
	for i := range 200 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, c := range map[string]struct{ text, want string }{
		"brackets":   {strings.Repeat("[", 1<<17), "nested too deep"},
		"braces":     {strings.Repeat("{a: ", 1<<15), "nested too deep"},
		"dashes":     {strings.Repeat("- ", 1<<17), "nested too deep"},
		"indent":     {deep.String(), "nested too deep"},
		"lines":      {strings.Repeat("a: b\n", 1<<16), "lines"},
		"bytes":      {"# " + strings.Repeat("x", 1<<20), "bytes"},
		"encoding":   {"gateway: a\nstate_dir: \xff", "weir.yaml:2:12: the file is not valid UTF-8"},
		"never ends": {`a: "` + strings.Repeat(`\n`, 1<<10), "not valid YAML"},
	} {
		if _, err := Parse("weir.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 4000 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// FuzzParse: the loader never panics, and says something useful about what it refuses.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", configsDir + "/*.yaml"} {
		for _, file := range glob(f, pattern) {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(small))
	f.Add([]byte("? [a]\n: b\n? {c: d}\n: e\n- f"))
	f.Add([]byte("a: !!binary x\nb: |\n  text\nc: >-\n  folded\n<<: {d: e}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c != nil, err)
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "f.yaml:") || plan.Printable(line) != line {
					t.Fatalf("a bad line in %q", err)
				}
			}
			return
		}
		for _, p := range c.Pipelines {
			if p.Graph == nil {
				t.Fatal("accepted without a graph")
			}
			plan.Explain(&p.Spec, p.Graph)
			p.Restart.Failover = FailoverRegion
			p.Regions() // what compiles as a whole does in parts
		}
	})
}

// TestCheckpointSettingsFit: whatever the file accepts, the coordinator accepts.
func TestCheckpointSettingsFit(t *testing.T) {
	for _, settings := range []string{"{}", "{interval: 10ms, timeout: 100ms, retained: 1, tolerable_failures: 0, alarm_after: 1, idle_interval: 10ms, rebase_ratio: 1}",
		"{interval: 30d, every_records: 5, timeout: 1d, min_pause: 1d, retained: 100, mode: at-least-once, rebase_ratio: 100}"} {
		c := mustParse(t, small+"    checkpoint: "+settings+"\n")
		if err := c.Pipelines[0].Checkpoint.Snapshot().Validate(); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
	c := mustParse(t, small+"    checkpoint: {interval: 3s, every_records: 7}\n")
	if s := c.Pipelines[0].Checkpoint.Snapshot(); s.Interval != 3*time.Second || s.EveryRecords != 7 || s.Retained != 3 {
		t.Errorf("%+v", s)
	}
}
