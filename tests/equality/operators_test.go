package equality

import (
	"fmt"

	"pgregory.net/rapid"
)

var operatorKinds = []string{"changed", "lag", "delta", "counter", "zscore", "throttle", "sample", "absence", "flatten", "cast", "split", "share"}

// again puts a select behind a step that adds columns, so that any step may follow it.
func (d *drawing) again(uid, v string) {
	d.add(uid+"x", uid, `select: {id: id, k: k, ts: ts, v: "%s", list: list}`, v)
	d.fixed[uid+"x"] = true
	d.rows = append(d.rows, uid+"x")
}

func (d *drawing) operator(kind, uid, maxKeys string) {
	in := d.pick()
	ttl := rapid.SampledFrom([]string{"", ", ttl: 30ms"}).Draw(d.t, "ttl") + maxKeys
	span := fmt.Sprintf("%dms", rapid.SampledFrom([]int{1, 4, 15, 60}).Draw(d.t, "span"))
	few := rapid.IntRange(1, 4).Draw(d.t, "few")
	switch kind {
	case "changed":
		d.add(uid, in, `by: [k], changed: {value: "v %% 3"}%s`, ttl)
		d.rows = append(d.rows, uid)
	case "lag":
		d.add(uid, in, "by: [k], lag: {value: v, n: %d}%s", few, ttl)
		d.again(uid, "prev ?? v")
	case "delta":
		d.add(uid, in, "by: [k], delta: {value: v}%s", ttl)
		d.again(uid, "v + (delta ?? 0)")
	case "counter":
		wrap := rapid.SampledFrom([]string{"", ", wrap: 41, max_step: 9", ", wrap: 64", ", reset_to: unknown"}).Draw(d.t, "wrap")
		d.add(uid, in, `by: [k], counter: {value: "v %% 41", rate: 10ms%s}%s`, wrap, ttl)
		d.again(uid, "(increase ?? 0) + int(rate ?? 0)")
		d.late(uid)
	case "zscore":
		d.add(uid, in, "by: [k], zscore: {value: v, n: %d, limit: 0.5}%s", few+1, ttl)
		d.again(uid, "int(z * 100 + mean + stddev)")
	case "throttle":
		d.add(uid, in, "by: [k], throttle: %s%s", span, ttl)
		d.rows = append(d.rows, uid)
	case "sample":
		d.add(uid, in, "by: [k], sample: {every: %d}%s", few, ttl)
		d.rows = append(d.rows, uid)
	case "absence":
		d.add(uid, in, "by: [k], absence: {after: %s, time: %s}%s", span, rapid.SampledFrom([]string{"event", "processing"}).Draw(d.t, "time"), maxKeys)
		d.sink(uid)
		if rapid.Bool().Draw(d.t, "go on") { // rows that timers made feed a step with a time to live
			d.add(uid+"y", uid, "dedup: {key: [k, transition]}, ttl: %s", span)
			d.sink(uid + "y")
		}
	case "flatten":
		own := rapid.SampledFrom([]string{"", ", fields: {t: int, v: scalar}", ", fields: {t: int, v: scalar}, time: t, earliest: 1970-01-01"}).Draw(d.t, "elements")
		d.add(uid, in, "flatten: {field: list, as: e, index: i%s}", own)
		d.again(uid, "v + i + (e.t ?? 0)")
	case "cast":
		d.add(uid, in, "cast: {v: %s}", rapid.SampledFrom([]string{"float", "uint", "string"}).Draw(d.t, "type"))
		d.again(uid, "int(v) + 1")
	case "split":
		d.add(uid, in, `split: {low: "v < 10", high: "v > 30"}`)
		d.ports(uid, in, "low", "high", "rest")
	case "share":
		d.add(uid, in, "split: {share: 50%%, on: [k]}")
		d.ports(uid, in, "in", "rest")
	}
}

// ports lets the outputs of a split be used further; what is not, gets a sink.
func (d *drawing) ports(uid, in string, names ...string) {
	for _, name := range names {
		d.fixed[uid+"."+name] = d.fixed[in]
		d.rows = append(d.rows, uid+"."+name)
	}
}
