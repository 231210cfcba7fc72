package equality

import (
	"errors"
	"fmt"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/agent/config"
)

var joinKinds = []string{"interval", "interval", "windowed", "latest", "lookup"}

// lookupFile is the file that drawn lookups name.
const lookupFile = "k,bonus\nx,1\ny,20\n"

// parse reads a drawn config; its lookups find their file.
func parse(text string) (*config.Config, error) {
	return config.ParseWith("drawn.yaml", []byte(text), func(path string) ([]byte, error) {
		if path != "drawn.csv" {
			return nil, errors.New("no such file")
		}
		return []byte(lookupFile), nil
	})
}

// join brings two streams together, or one with itself, or one with a file. What comes out has the sources' columns again.
func (d *drawing) join(kind, uid, maxKeys string) {
	if kind == "lookup" {
		missing := rapid.SampledFrom([]string{"null", "drop", "dead"}).Draw(d.t, "missing")
		d.add(uid, d.pick(), "lookup: {file: drawn.csv, on: [k], columns: [bonus], missing: %s}", missing)
		d.again(uid, "v + (bonus ?? 0)")
		return
	}
	left, right := d.pick(), d.pick()
	if left == right {
		d.add(uid+"f", left, `filter: "v %% 2 == 0"`)
		right = uid + "f"
	}
	ms := func(label string) int { return rapid.SampledFrom([]int{0, 1, 6, 30}).Draw(d.t, label) }
	types := []string{"inner", "left", "full"}
	how, ttl := "", rapid.SampledFrom([]string{"", "", ", ttl: 9ms"}).Draw(d.t, "ttl")
	switch kind {
	case "interval":
		how = fmt.Sprintf("within: {before: %dms, after: %dms}", ms("before"), ms("after"))
	case "windowed":
		how, ttl = rapid.SampledFrom([]string{
			"window: {tumbling: 10ms}", "window: {tumbling: 10ms, offset: 3ms}", "window: {hopping: 12ms, slide: 4ms}", "window: {hopping: 4ms, slide: 6ms}",
			"window: {session: 5ms}", "window: {session: 5ms, touching: split}",
		}).Draw(d.t, "windows"), ""
	case "latest":
		how, types = "latest: true", types[:2]
	}
	d.steps = append(d.steps, fmt.Sprintf(
		"      - {uid: %s, from: [%s, %s], join: {on: [k], %s, type: %s, select: {id: \"left.id ?? right.id\", k: k, ts: \"left.ts ?? right.ts\", v: \"(left.v ?? 0) - (right.v ?? 0)\", list: \"left.list ?? right.list\"}}%s%s}\n",
		uid, left, right, how, rapid.SampledFrom(types).Draw(d.t, "type"), ttl, maxKeys))
	d.fixed[uid], d.fixed[uid+".late"] = true, true
	d.rows = append(d.rows, uid)
	if kind != "latest" {
		d.late(uid)
	}
}
