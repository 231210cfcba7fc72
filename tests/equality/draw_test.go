package equality

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// drawing makes a pipeline step by step. Steps in rows have the columns of the sources, so that any may follow any.
type drawing struct {
	t     *rapid.T
	steps []string
	sinks []string
	rows  []string // refs of streams with the sources' columns
	taken map[string]bool
	fixed map[string]bool // streams whose columns are all known: a union takes no mixture
}

// drawConfig makes the text of a config with one pipeline: one or two sources, one to six steps, a sink for each end.
func drawConfig(t *rapid.T) string {
	return drawConfigOf(t, func(d *drawing) {
		for n := range rapid.IntRange(1, 6).Draw(t, "steps") {
			d.step(fmt.Sprintf("s%d", n))
		}
	})
}

// drawConfigOf makes the steps as it is told.
func drawConfigOf(t *rapid.T, steps func(*drawing)) string {
	d := &drawing{t: t, taken: map[string]bool{}, fixed: map[string]bool{}, rows: []string{"a"}}
	var b strings.Builder
	b.WriteString("gateway: g\nstate_dir: /nowhere/weir\nsecurity: {allow_private: true}\nbrokers:\n  m: {url: \"tcp://127.0.0.1:1883\"}\nsources:\n")
	d.source(&b, "a")
	if rapid.Bool().Draw(t, "two sources") {
		d.source(&b, "b")
		d.rows = append(d.rows, "b")
	}
	steps(d)
	for _, r := range d.rows {
		if !d.taken[r] {
			d.sink(r)
		}
	}
	fmt.Fprintf(&b, "pipelines:\n  p:\n    steps:\n%s    sinks:\n%s", strings.Join(d.steps, ""), strings.Join(d.sinks, ""))
	return b.String()
}

func (d *drawing) source(b *strings.Builder, name string) {
	fmt.Fprintf(b, "  %s:\n    mqtt: {broker: m, topic: %s/+}\n    decode: json\n    fields: {id: int, k: string, ts: int, v: int, list: json}\n", name, name)
	fmt.Fprintf(b, "    time: {field: ts, unit: ms, out_of_orderness: %dms, earliest: 1970-01-01}\n", rapid.SampledFrom([]int{0, 5, 20}).Draw(d.t, "out of orderness"))
	if idle := rapid.SampledFrom([]string{"", "advance", "hold"}).Draw(d.t, "idle"); idle != "" {
		fmt.Fprintf(b, "    idle: {after: 20ms, watermark: %s}\n", idle)
	}
}

func (d *drawing) sink(from string) {
	commit := rapid.SampledFrom([]string{"immediate", "checkpoint"}).Draw(d.t, "commit")
	d.sinks = append(d.sinks, fmt.Sprintf("      - {uid: to-%s, from: %s, commit: %s, http: {url: \"http://127.0.0.1:9/weir\"}}\n", strings.ReplaceAll(from, ".", "-"), from, commit))
}

func (d *drawing) add(uid, from, format string, args ...any) {
	d.fixed[uid], d.fixed[uid+".late"] = d.fixed[from], d.fixed[from]
	d.steps = append(d.steps, fmt.Sprintf("      - {uid: %s, from: %s, %s}\n", uid, from, fmt.Sprintf(format, args...)))
}

// pick takes one of the streams with rows.
func (d *drawing) pick() string {
	r := rapid.SampledFrom(d.rows).Draw(d.t, "from")
	d.taken[r] = true
	return r
}

func (d *drawing) step(uid string) {
	kinds := []string{"filter", "select", "dedup", "deadband", "sort", "alarm", "window", "window"}
	kinds = slices.Concat(kinds, operatorKinds, windowKinds, joinKinds)
	if len(d.rows) > 1 {
		kinds = append(kinds, "union", "union")
	}
	ms := func(label string, choices ...int) string {
		return fmt.Sprintf("%dms", rapid.SampledFrom(choices).Draw(d.t, label))
	}
	maxKeys := ""
	if rapid.IntRange(0, 3).Draw(d.t, "few keys") == 0 {
		maxKeys = ", max_keys: 2"
	}
	kind := rapid.SampledFrom(kinds).Draw(d.t, "kind")
	if slices.Contains(operatorKinds, kind) {
		d.operator(kind, uid, maxKeys)
		return
	}
	if slices.Contains(windowKinds, kind) {
		d.otherWindow(uid, kind, maxKeys)
		return
	}
	if slices.Contains(joinKinds, kind) {
		d.join(kind, uid, maxKeys)
		return
	}
	switch kind {
	case "filter":
		d.add(uid, d.pick(), `filter: "v %% %d != 0"`, rapid.IntRange(2, 5).Draw(d.t, "modulus"))
	case "select":
		d.add(uid, d.pick(), `select: {id: id, k: k, ts: ts, v: "%s", list: list}`, rapid.SampledFrom([]string{"v + 1", "v * 2", "100 - v", "div(100, v)"}).Draw(d.t, "expression"))
		d.fixed[uid] = true
	case "dedup":
		d.add(uid, d.pick(), "dedup: {key: [k, v]}, ttl: %s%s", ms("ttl", 5, 30, 1000), maxKeys)
	case "deadband":
		d.add(uid, d.pick(), "by: [k], deadband: {value: v, threshold: %d}%s", rapid.IntRange(0, 8).Draw(d.t, "threshold"), maxKeys)
	case "sort":
		d.add(uid, d.pick(), "sort: event_time")
		d.late(uid)
	case "union":
		first, second := d.pick(), d.pick()
		if first == second {
			d.add(uid, first, `filter: "v > 3"`)
			break
		}
		if d.fixed[first] != d.fixed[second] {
			first, second = d.fix(first, uid+"l"), d.fix(second, uid+"r")
		}
		d.steps = append(d.steps, fmt.Sprintf("      - {uid: %s, from: [%s, %s]}\n", uid, first, second))
		d.fixed[uid] = d.fixed[first]
	case "alarm":
		hold := ""
		if rapid.Bool().Draw(d.t, "hold") {
			hold = ", hold: " + ms("hold time", 1, 4, 25)
		}
		d.add(uid, d.pick(), `by: [k], alarm: {value: v, raise: "> 20", clear: "< %d"%s}%s`, rapid.IntRange(10, 20).Draw(d.t, "clear"), hold, maxKeys)
		d.sink(uid)
		return
	case "window":
		d.add(uid, d.pick(), "by: [k], window: {tumbling: %s, allowed_lateness: %s}, aggregate: %s%s%s",
			ms("size", 5, 10, 40), ms("lateness", 0, 5, 30), d.aggregates(), d.ttl(), maxKeys)
		d.sink(uid)
		d.late(uid)
		return
	}
	d.rows = append(d.rows, uid)
}

// fix puts a select behind a stream whose columns are not all known.
func (d *drawing) fix(from, uid string) string {
	if d.fixed[from] {
		return from
	}
	d.add(uid, from, "select: [id, k, ts, v, list]")
	d.fixed[uid] = true
	return uid
}

// late may give the late rows of a step a sink or let them be used further.
func (d *drawing) late(uid string) {
	switch rapid.IntRange(0, 2).Draw(d.t, "late") {
	case 0:
		d.sink(uid + ".late")
	case 1:
		d.rows = append(d.rows, uid+".late")
	}
}

// compile gives a fresh graph for each run: operators are made anew.
func compile(t fatal, text string) *plan.Graph {
	c, err := parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c.Pipelines[0].Graph
}

type fatal interface{ Fatalf(string, ...any) }

var _ fatal = (*testing.T)(nil)

// drawJournal makes entries: times that wander, late ones, stamps that stand or jump, ticks, foreign and bad records.
func drawJournal(t *rapid.T) []pipeline.Entry {
	var all []pipeline.Entry
	stamp, base := pipeline.Stamp{Elapsed: 1}, int64(1000)
	for i := range rapid.IntRange(1, 200).Draw(t, "entries") {
		if gap := int64(rapid.SampledFrom([]int{0, 0, 0, 1, 3, 25}).Draw(t, "gap")); gap > 0 {
			stamp.Elapsed += gap * 1e6
			stamp.Wall += gap + int64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, -40, 1000}).Draw(t, "step of the wall clock"))
		}
		base += int64(rapid.SampledFrom([]int{0, 0, 1, 2, 15}).Draw(t, "ahead"))
		source := rapid.SampledFrom([]string{"a", "a", "b", "b", "c"}).Draw(t, "source")
		key := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "key")
		e := pipeline.Entry{Pos: pipeline.Position(i + 1), Stamp: stamp, Kind: pipeline.EntryMessage, Source: source, Topic: []byte(source + "/" + key)}
		switch rapid.IntRange(0, 14).Draw(t, "sort of entry") {
		case 0:
			e = pipeline.Entry{Pos: e.Pos, Stamp: stamp, Kind: pipeline.EntryTick}
		case 1:
			e.Payload = []byte(rapid.SampledFrom([]string{"{broken", `{"id":1}`, `{"id":"text","k":1,"ts":5,"v":0}`, ""}).Draw(t, "bad"))
		default:
			at := base - int64(rapid.SampledFrom([]int{0, 0, 1, 4, 12, 60}).Draw(t, "behind"))
			list := rapid.SampledFrom([]string{"", "", `,"list":[]`, `,"list":[1,{"t":1000,"v":2},"x",{"t":990,"v":[3]}]`, `,"list":[{"t":1020,"v":7},{"t":1021,"v":null}]`}).Draw(t, "list")
			e.Payload = fmt.Appendf(nil, `{"id":%d,"k":"%s","ts":%d,"v":%d%s}`, i, key, at, rapid.IntRange(0, 40).Draw(t, "value"), list)
		}
		all = append(all, e)
	}
	return all
}
