package equality

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// windowKinds are the windows that draw draws besides plain tumbling ones.
var windowKinds = []string{"hopping", "session", "count", "state", "top", "processing"}

// otherWindow draws a window of a kind, a sink behind it, and one for what is late.
func (d *drawing) otherWindow(uid, kind, maxKeys string) {
	ms := func(label string, choices ...int) string {
		return fmt.Sprintf("%dms", rapid.SampledFrom(choices).Draw(d.t, label))
	}
	early := func(choices ...int) string {
		if rapid.IntRange(0, 2).Draw(d.t, "early") != 0 {
			return ""
		}
		return ", early: " + ms("early every", choices...)
	}
	lateness := ", allowed_lateness: " + ms("lateness", 0, 5, 30)
	hopping := func() string {
		return fmt.Sprintf("hopping: %s, slide: %s", ms("size", 5, 12, 40), ms("slide", 5, 7, 20))
	}
	session := func() string {
		return fmt.Sprintf("session: %s, touching: %s", ms("gap", 3, 15), rapid.SampledFrom([]string{"merge", "split"}).Draw(d.t, "touching"))
	}
	window, contents := "", "aggregate: {n: count(), sum: sum(v), mean: avg(v), low: min(k), first: first(id), last: last(id)}"
	switch kind {
	case "hopping":
		window = hopping() + lateness + early(3, 5) // not above the least size
	case "session":
		window = session() + lateness + early(3, 10)
	case "count":
		window = fmt.Sprintf("count: %d, slide: %d", rapid.IntRange(1, 6).Draw(d.t, "rows"), rapid.IntRange(1, 6).Draw(d.t, "slide rows"))
	case "state":
		window = rapid.SampledFrom([]string{"state: v > 15", "state: {begin: v > 10, end: v > 30}"}).Draw(d.t, "state")
	case "top":
		window = fmt.Sprintf("tumbling: %s", ms("size", 10, 40)) + lateness
		if rapid.Bool().Draw(d.t, "hopping top") {
			window = hopping() + lateness
		}
		contents = fmt.Sprintf("top: {n: 2, order: v %s, ties: %v}", rapid.SampledFrom([]string{"asc", "desc"}).Draw(d.t, "direction"), rapid.Bool().Draw(d.t, "ties"))
	case "processing":
		window = rapid.SampledFrom([]string{"tumbling: 10ms", hopping(), session()}).Draw(d.t, "by wall time") + early(3, 5) + ", time: processing"
	}
	if strings.HasPrefix(window, "session") || kind == "count" || kind == "state" { // the others are made of panes, which have none
		maxKeys += d.ttl()
	}
	d.add(uid, d.pick(), "by: [k], window: {%s}, %s%s", window, contents, maxKeys)
	d.sink(uid)
	if kind != "count" && kind != "state" && kind != "processing" {
		d.late(uid)
	}
}

func (d *drawing) ttl() string {
	return rapid.SampledFrom([]string{"", "", ", ttl: 5ms", ", ttl: 30ms"}).Draw(d.t, "window's ttl")
}
