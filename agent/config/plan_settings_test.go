package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestEachSettingOfAStepIsPartOfThePlan: state that was made under one value of a setting must not come under another one in silence. The agent refuses a
// checkpoint of another plan, and tells in what it differs; so what matters is that the hash sees every setting.
func TestEachSettingOfAStepIsPartOfThePlan(t *testing.T) {
	const source = "decode: json\n    fields: {id: int, k: string, ts: int, v: int, w: int, list: json}\n    time: {field: ts, unit: ms, out_of_orderness: 1s}\n"
	steps := map[string]string{ // of the step s, whose base each setting is changed in
		"changed":  "by: [k], changed: {value: v}, ttl: 1h, max_keys: 10",
		"lag":      "by: [k], lag: {value: v, n: 2, as: x}, ttl: 1h, max_keys: 10",
		"delta":    "by: [k], delta: {value: v, as: x}, ttl: 1h, max_keys: 10",
		"counter":  "by: [k], counter: {value: v, as: x, wrap: 100, max_step: 5, reset_to: zero, rate: 1s, rate_as: r}, ttl: 1h, max_keys: 10",
		"zscore":   "by: [k], zscore: {value: v, n: 3, limit: 4}, ttl: 1h, max_keys: 10",
		"throttle": "by: [k], throttle: 10s, ttl: 1h, max_keys: 10",
		"sample":   "by: [k], sample: {every: 3}, ttl: 1h, max_keys: 10",
		"dedup":    "dedup: {key: [k]}, ttl: 1h, max_keys: 10",
		"deadband": "by: [k], deadband: {value: v, threshold: 2}, ttl: 1h, max_keys: 10",
		"alarm":    "by: [k], alarm: {value: v, raise: \"> 5\", clear: \"< 3\", hold: 5s, latch: false}, max_keys: 10",
		"absence":  "by: [k], absence: {after: 5s, time: event}, max_keys: 10",
		"sort":     "sort: event_time, max_keys: 10",
		"flatten":  "flatten: {field: list, as: e, index: i, limit: 10}",
		"share":    "split: {share: 10%, on: [k]}",
		"split":    "split: {hot: \"v > 1\", cold: \"v < 0\"}",
		"filter":   "filter: \"v > 1\"",
		"select":   "select: {k: k, v: \"v + 1\"}",
		"cast":     "cast: {v: string}",
		"tumbling": "by: [k], window: {tumbling: 10s, offset: 1s, allowed_lateness: 2s, early: 3s}, aggregate: {n: count(), s: sum(v)}, max_keys: 10",
		"hopping":  "by: [k], window: {hopping: 10s, slide: 2s}, aggregate: {n: count()}, max_keys: 10",
		"session":  "by: [k], window: {session: 10s, touching: merge}, aggregate: {n: count()}, max_keys: 10",
		"count":    "by: [k], window: {count: 10, slide: 5}, aggregate: {n: count()}, ttl: 1h, max_keys: 10",
		"state":    "by: [k], window: {state: \"v > 1\"}, aggregate: {n: count()}, ttl: 1h, max_keys: 10",
		"top":      "by: [k], window: {tumbling: 10s}, top: {n: 3, order: v desc, ties: false}, max_keys: 10",
	}
	changes := []struct{ of, from, to string }{
		{"changed", "value: v", "value: w"}, {"changed", "by: [k]", "by: [w]"}, {"changed", "ttl: 1h", "ttl: 2h"}, {"changed", "max_keys: 10", "max_keys: 20"},
		{"lag", "value: v", "value: w"}, {"lag", "n: 2", "n: 3"}, {"lag", "as: x", "as: y"}, {"lag", "ttl: 1h", "ttl: 2h"}, {"lag", "max_keys: 10", "max_keys: 20"},
		{"delta", "value: v", "value: w"}, {"delta", "as: x", "as: y"}, {"delta", "ttl: 1h", "ttl: 2h"}, {"delta", "max_keys: 10", "max_keys: 20"},
		{"counter", "value: v", "value: w"}, {"counter", "wrap: 100", "wrap: 200"}, {"counter", "max_step: 5", "max_step: 6"}, {"counter", "reset_to: zero", "reset_to: unknown"},
		{"counter", "rate: 1s", "rate: 1m"}, {"counter", "rate_as: r", "rate_as: q"}, {"counter", "ttl: 1h", "ttl: 2h"}, {"counter", "max_keys: 10", "max_keys: 20"},
		{"zscore", "value: v", "value: w"}, {"zscore", "n: 3", "n: 5"}, {"zscore", "limit: 4", "limit: 5"}, {"zscore", "ttl: 1h", "ttl: 2h"}, {"zscore", "max_keys: 10", "max_keys: 20"},
		{"throttle", "10s", "11s"}, {"throttle", "by: [k]", "by: [w]"}, {"throttle", "ttl: 1h", "ttl: 2h"},
		{"sample", "every: 3", "every: 4"}, {"sample", "ttl: 1h", "ttl: 2h"}, {"sample", "max_keys: 10", "max_keys: 20"},
		{"dedup", "[k]", "[k, v]"}, {"dedup", "ttl: 1h", "ttl: 2h"}, {"dedup", "max_keys: 10", "max_keys: 20"},
		{"deadband", "threshold: 2", "threshold: 3"}, {"deadband", "value: v", "value: w"}, {"deadband", "ttl: 1h", "ttl: 2h"},
		{"alarm", "> 5", "> 6"}, {"alarm", "< 3", "< 2"}, {"alarm", "latch: false", "latch: true"}, {"alarm", "hold: 5s", "hold: 6s"}, {"alarm", "value: v", "value: w"},
		{"absence", "after: 5s", "after: 6s"}, {"absence", "time: event", "time: processing"}, {"absence", "max_keys: 10", "max_keys: 20"},
		{"sort", "max_keys: 10", "max_keys: 20"},
		{"flatten", "as: e", "as: f"}, {"flatten", "index: i", "index: j"}, {"flatten", "limit: 10", "limit: 11"},
		{"share", "10%", "11%"}, {"share", "[k]", "[v]"}, {"split", "v > 1", "v > 2"}, {"split", "hot: \"v > 1\", cold: \"v < 0\"", "cold: \"v < 0\", hot: \"v > 1\""},
		{"filter", "v > 1", "v > 2"}, {"select", "v + 1", "v + 2"}, {"cast", "string", "float"},
		{"tumbling", "tumbling: 10s", "tumbling: 20s"}, {"tumbling", "offset: 1s", "offset: 2s"}, {"tumbling", "allowed_lateness: 2s", "allowed_lateness: 3s"},
		{"tumbling", "early: 3s", "early: 4s"}, {"tumbling", "sum(v)", "sum(w)"}, {"tumbling", "max_keys: 10", "max_keys: 20"},
		{"hopping", "hopping: 10s", "hopping: 20s"}, {"hopping", "slide: 2s", "slide: 5s"}, {"session", "session: 10s", "session: 20s"}, {"session", "merge", "split"},
		{"count", "count: 10", "count: 20"}, {"count", "slide: 5", "slide: 2"}, {"count", "ttl: 1h", "ttl: 2h"}, {"state", "v > 1", "v > 2"},
		{"top", "n: 3", "n: 4"}, {"top", "v desc", "w desc"}, {"top", "v desc", "v asc"}, {"top", "ties: false", "ties: true"},
	}
	seen := map[string]bool{}
	hash := func(step string, setting string) [32]byte {
		t.Helper()
		from := "s"
		if setting == "share" {
			from = "s.in"
		} else if setting == "split" {
			from = "s.hot"
		}
		text := fmt.Sprintf("gateway: g\nstate_dir: /nowhere/weir\nsecurity: {allow_private: true}\nbrokers:\n  m: {url: \"tcp://127.0.0.1:1883\"}\nsources:\n  a:\n    mqtt: {broker: m, topic: a/+}\n    %s"+
			"pipelines:\n  p:\n    steps:\n      - {uid: s, from: a, %s}\n    sinks:\n      - {uid: out, from: %s, http: {url: \"http://127.0.0.1:9/weir\"}}\n", source, step, from)
		c, err := ParseWith("c.yaml", []byte(text), func(string) ([]byte, error) { return nil, errors.New("no file") })
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		return c.Pipelines[0].Graph.Hash
	}
	for _, c := range changes {
		seen[c.of] = true
		base := steps[c.of]
		changed := replaceOnce(t, base, c.from, c.to)
		if hash(base, c.of) == hash(changed, c.of) {
			t.Errorf("%s: %s → %s leaves the plan as it is", c.of, c.from, c.to)
		}
	}
	for kind := range steps {
		if !seen[kind] {
			t.Errorf("no setting of %s is changed", kind)
		}
	}
}

func replaceOnce(t *testing.T, text, from, to string) string {
	t.Helper()
	before, after, found := strings.Cut(text, from)
	if !found {
		t.Fatalf("%q is not in %q", from, text)
	}
	return before + to + after
}
