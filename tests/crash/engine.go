package crash

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/uplink/wire"
)

// stateBackends are where the tables of a pipeline of engine may be.
var stateBackends = []string{"memory", "pebble"}

// engineStreams is how many sinks engine has.
const engineStreams = 12

// engine: a session window, a hopping window, a left join, an append-list, flatten and split; both commit modes, both snapshot stores. Each start of the
// agent draws how many instances the keyed steps run in, and where their tables are.
const engine = `
pipelines:
  windows-log:
    start: earliest
    parallelism: PARALLEL
    state: {backend: BACKEND}
    checkpoint: {interval: 300ms, store: log}
    steps:
      - {uid: bursts, from: a, filter: "v < 200"}
      - {uid: session, from: bursts, by: [k], window: {session: 100ms}, aggregate: {n: count(), sum: sum(v)}}
      - {uid: hop, from: a, by: [k], window: {hopping: 400ms, slide: 100ms}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: session-now, from: session, commit: immediate, http: {url: "URL"}}
      - {uid: session-later, from: session, http: {url: "URL"}}
      - {uid: hop-now, from: hop, commit: immediate, http: {url: "URL"}}
      - {uid: hop-later, from: hop, http: {url: "URL"}}
  join-bbolt:
    start: earliest
    parallelism: PARALLEL
    state: {backend: BACKEND}
    checkpoint: {interval: 400ms, store: bbolt}
    steps:
      - {uid: left, from: a, select: {id: id, g: id % 10}}
      - {uid: some, from: b, filter: "v >= 300"}
      - {uid: right, from: some, select: {partner: id, g: (id + 1) % 10}}
      - {uid: pair, from: [left, right], join: {on: [g], within: 3ms, type: left}}
    sinks:
      - {uid: pair-now, from: pair, commit: immediate, http: {url: "URL"}}
      - {uid: pair-later, from: pair, http: {url: "URL"}}
  lists-log:
    start: earliest
    parallelism: PARALLEL
    state: {backend: BACKEND}
    checkpoint: {interval: 200ms, store: log}
    steps:
      - {uid: list, from: a, by: [k], window: {tumbling: 500ms}, aggregate: {ids: "collect(id, 100)"}}
      - {uid: flat, from: list, flatten: {field: ids, as: id, index: i}}
      - {uid: element, from: flat, select: [k, window_start, i, id]}
      - {uid: half, from: a, split: {low: "v < 500"}}
    sinks:
      - {uid: list-now, from: list, commit: immediate, http: {url: "URL"}}
      - {uid: list-later, from: list, http: {url: "URL"}}
      - {uid: element-now, from: element, commit: immediate, http: {url: "URL"}}
      - {uid: element-later, from: element, http: {url: "URL"}}
      - {uid: low-now, from: half.low, commit: immediate, http: {url: "URL"}}
      - {uid: high-later, from: half.rest, http: {url: "URL"}}
`

const (
	burstBelow, sessionGapMs = 200, 100
	hopMs, slideMs           = 400, 100
	joinFrom, joinMs         = 300, 3
	listMs                   = 500
)

// engineRow holds the columns of every row that engine makes.
type engineRow struct {
	Start, End int64 `json:"-"`
	K          string
	N, Sum     int
	ID         int
	Partner    *int
	IDs        []int
	I          int
	Revision   int
}

func (r *engineRow) UnmarshalJSON(b []byte) error {
	type plain engineRow
	window := struct {
		*plain
		Start int64 `json:"window_start"`
		End   int64 `json:"window_end"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(b, &window)
	r.Start, r.End = window.Start, window.End
	return err
}

// engineAnswer is what one kind of stream must hold: each text as often as it is there. text tells what a row says.
type engineAnswer struct {
	want map[string]int
	text func(r *engineRow) string
}

func windowText(r *engineRow) string {
	return fmt.Sprintf("%s %d-%d n %d sum %d revision %d", r.K, r.Start, r.End, r.N, r.Sum, r.Revision)
}

func pairText(r *engineRow) string {
	if r.Partner == nil {
		return fmt.Sprintf("%d alone", r.ID)
	}
	return fmt.Sprintf("%d with %d", r.ID, *r.Partner)
}

// listText leaves the order out: it is that of arrival, and a broker that is killed sends some messages again, behind others.
func listText(r *engineRow) string {
	return fmt.Sprintf("%s %d %v", r.K, r.Start, slices.Sorted(slices.Values(r.IDs)))
}

func elementText(r *engineRow) string {
	return fmt.Sprintf("%s %d %d", r.K, r.Start, r.ID)
}

func idText(r *engineRow) string { return fmt.Sprint(r.ID) }

// engineTruth is computed from the n messages alone, in the plainest way.
func engineTruth(n int) map[string]engineAnswer {
	list, element, low, high := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	lists := map[oracle.Cell]*engineRow{}
	for i := 0; i < n; i += 2 {
		m := messageOf(i)
		c := oracle.Cell{Start: m.TS / listMs * listMs, K: m.K}
		if lists[c] == nil {
			lists[c] = &engineRow{K: m.K, Start: c.Start}
		}
		lists[c].IDs = append(lists[c].IDs, i)
		element[elementText(&engineRow{K: m.K, Start: c.Start, ID: i})]++
		if m.V < 500 {
			low[fmt.Sprint(i)]++
		} else {
			high[fmt.Sprint(i)]++
		}
	}
	for _, r := range lists {
		list[listText(r)]++
	}
	return map[string]engineAnswer{
		"session": {sessionTruth(n), windowText}, "hop": {hopTruth(n), windowText}, "pair": {pairTruth(n), pairText},
		"list": {list, listText}, "element": {element, elementText}, "low": {low, idText}, "high": {high, idText},
	}
}

// sessionTruth: the messages come by time.
func sessionTruth(n int) map[string]int {
	all, open := map[string]int{}, map[string]*engineRow{}
	for i := 0; i < n; i += 2 {
		m := messageOf(i)
		if m.V >= burstBelow {
			continue
		}
		r := open[m.K]
		if r == nil || m.TS > r.End {
			if r != nil {
				all[windowText(r)]++
			}
			r = &engineRow{K: m.K, Start: m.TS}
			open[m.K] = r
		}
		r.End, r.N, r.Sum = m.TS+sessionGapMs, r.N+1, r.Sum+m.V
	}
	for _, r := range open {
		all[windowText(r)]++
	}
	return all
}

func hopTruth(n int) map[string]int {
	windows := map[oracle.Cell]*engineRow{}
	for i := 0; i < n; i += 2 {
		m := messageOf(i)
		for start := m.TS / slideMs * slideMs; start > m.TS-hopMs; start -= slideMs {
			c := oracle.Cell{Start: start, K: m.K}
			if windows[c] == nil {
				windows[c] = &engineRow{K: m.K, Start: start, End: start + hopMs}
			}
			windows[c].N, windows[c].Sum = windows[c].N+1, windows[c].Sum+m.V
		}
	}
	all := map[string]int{}
	for _, r := range windows {
		all[windowText(r)]++
	}
	return all
}

func pairTruth(n int) map[string]int {
	const near = (joinMs + 1) * perMs // ids farther apart are farther apart in time
	all := map[string]int{}
	for i := 0; i < n; i += 2 {
		alone := true
		for j := max(1, i+1-near); j < min(n, i+near); j++ {
			l, r := messageOf(i), messageOf(j)
			if j%2 == 1 && r.V >= joinFrom && i%10 == (j+1)%10 && max(l.TS-r.TS, r.TS-l.TS) <= joinMs {
				all[pairText(&engineRow{ID: i, Partner: &j})]++
				alone = false
			}
		}
		if alone {
			all[pairText(&engineRow{ID: i})]++
		}
	}
	return all
}

// judgeEngine compares what the receiver holds of each stream with the truth. The places of the elements must be those of the lists, which left
// by another sink.
func judgeEngine(r upstream, flush int) (all []verdict, err error) {
	names, err := r.Streams()
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	truth, places := engineTruth(flush), map[int]int{}
	var elements []engineRow
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return nil, err
		}
		kind, _, _ := strings.Cut(stream.Sink, "-")
		v, got := verdict{oracle.Verdict{Stream: stream.Sink}}, map[string]int{}
		err = r.Records(stream, func(_ uint64, l wire.Line) error {
			if l.Data == nil {
				v.Wrongf("gap at %d: %s", l.Seq, l.Reason)
				return nil
			}
			var row engineRow
			if err := json.Unmarshal(l.Data, &row); err != nil {
				return err
			}
			if v.Got++; row.ID >= flush {
				return nil
			}
			got[truth[kind].text(&row)]++
			for i, id := range row.IDs {
				if at, known := places[id]; known && at != i {
					v.Wrongf("%d is at %d of its list, and at %d in another sink", id, i, at)
				}
				places[id] = i
			}
			if kind == "element" {
				elements = append(elements, row)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		v.compareTexts(truth[kind].want, got)
		all = append(all, v)
	}
	for _, e := range elements {
		if at, known := places[e.ID]; known && at != e.I {
			all[0].Wrong = append(all[0].Wrong, fmt.Sprintf("element %d is at %d, and at %d of its list", e.ID, e.I, at))
		}
	}
	return all, nil
}

func (v *verdict) compareTexts(want, got map[string]int) {
	for text, n := range want {
		v.Lost += max(0, n-got[text])
		v.Duplicate += max(0, got[text]-n)
	}
	for text := range got {
		if want[text] == 0 {
			v.Wrong = append(v.Wrong, text)
		}
	}
}
