package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/config"
)

const compared = `
gateway: g
brokers:
  b: {url: "tcp://127.0.0.1:1"}
  far: {url: "tcp://127.0.0.1:2"}
sources:
  s: {mqtt: {broker: b, topic: "a/{k}"}, fields: {x: float}}
links:
  slow: {bandwidth: 64KiB}
pipelines:
  p:
    steps:
      - {uid: f, from: s, filter: "x > 1"}
    sinks:
      - {uid: o, from: f, file: {path: o.jsonl}}
  q:
    sinks:
      - {uid: o, from: s, link: slow, mqtt: {broker: far, topic: "t"}}
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompare: what each edit of a config touches.
func TestCompare(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"gateway: g", "\n\ngateway: g # moved", ""},
		{"apply", "apply", ""},
		{"x > 1", "x > 2", "p changed"},
		{"path: o.jsonl", "path: p.jsonl", "p changed"},
		{"    steps:", "    parallelism: 2\n    steps:", "p changed"},
		{"    steps:", "    restart: {strategy: none}\n    steps:", "p changed"},
		{"    steps:", "    start: earliest\n    steps:", ""},
		{"64KiB", "128KiB", "q changed"},
		{"fields: {x: float}", "fields: {x: int}", "p changed"},
		{"  far: {url: \"tcp://127.0.0.1:2\"}", "  far: {url: \"tcp://127.0.0.1:2\", keepalive: 7s}", "q changed, broker far"},
		{"  b: {url: \"tcp://127.0.0.1:1\"}", "  b: {url: \"tcp://127.0.0.1:1\", keepalive: 7s}", "broker b"},
		{"topic: \"a/{k}\"", "topic: \"a/{k}\", qos: 2", "source s"},
		{"sources:", "sources:\n  n: {mqtt: {broker: b, topic: \"n\"}}", "source +n"},
		{"  q:\n", "  r:\n", "r new, q removed"},
		{"topic: \"a/{k}\"", "topic: \"c/{k}\"", "p changed, q changed, refused source s has another topic"},
		{"127.0.0.1:1", "127.0.0.1:9", "refused broker b has another url"},
		{"gateway: g", "gateway: h", "refused gateway changed: needs a restart"},
		{"gateway: g", "gateway: g\nflash: {tbw: 40TB}", "refused flash changed: needs a restart"},
	} {
		if !strings.Contains(compared, c.was) && c.was != "apply" {
			t.Fatalf("%q is not there", c.was)
		}
		d := Compare(parsed(t, compared), parsed(t, strings.Replace(compared, c.was, c.is, 1)))
		var got []string
		for _, p := range d.Pipelines {
			got = append(got, fmt.Sprint(p.Name, " ", p.Kind))
		}
		for _, b := range d.Brokers {
			got = append(got, "broker "+b)
		}
		for _, s := range d.Sources {
			got = append(got, "source "+s)
		}
		for _, r := range d.Refused {
			got = append(got, "refused "+r)
		}
		want := strings.Split(c.want, ", ")
		if c.want == "" {
			want = nil
		}
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%q to %q: %q, want %q", c.was, c.is, got, want)
		}
	}
}
