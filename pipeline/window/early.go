package window

import (
	"cmp"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// earlies are the panes with rows that have not come out, by the time at which they do.
type earlies struct{ list []earlyTime }

type earlyTime struct {
	due   int64
	panes []earlyPane
}

type earlyPane struct {
	id    int32
	start int64
}

func (e *earlies) add(due int64, id int32, start int64) {
	i, found := slices.BinarySearchFunc(e.list, due, func(have earlyTime, due int64) int { return cmp.Compare(have.due, due) })
	if !found {
		e.list = slices.Insert(e.list, i, earlyTime{due: due})
	}
	e.list[i].panes = append(e.list[i].panes, earlyPane{id, start})
}

// next is the earliest time, pipeline.NoDeadline for none.
func (e *earlies) next() int64 {
	if len(e.list) == 0 {
		return pipeline.NoDeadline
	}
	return e.list[0].due
}

func (e *earlies) take() []earlyPane {
	panes := e.list[0].panes
	e.list = slices.Delete(e.list, 0, 1)
	return panes
}

// earlyDue is when what a row changed comes out before its end: the next multiple of the interval behind the row's time and behind the
// watermark (as Flink's ContinuousEventTimeTrigger).
func earlyDue(interval, t, watermark int64) int64 {
	return floorTo(max(t, watermark), interval, 0) + interval
}

// setEarly notes that a pane got a row at t; last is the end of its last window.
func (h *Hopping) setEarly(entry []byte, id int32, start, last, t int64) {
	if dueOf(entry) != never {
		return
	}
	if due := earlyDue(h.c.EarlyMs, t, h.watermark); due < last {
		setDue(entry, due)
		if state.LargeBuilt && h.far != nil {
			h.far.early.Add(h.far.dueOf(due, start, h.key[startBytes:]))
			return
		}
		h.early.add(due, id, start)
	}
}

// nextEarly is when the next panes come out early, pipeline.NoDeadline for never.
func (h *Hopping) nextEarly() int64 {
	if !state.LargeBuilt || h.far == nil {
		return h.early.next()
	}
	if m := h.far.early.First(); m != nil {
		return startOf(m)
	}
	return pipeline.NoDeadline
}

// cameEarly notes that nothing of a pane waits to come out early.
func (h *Hopping) cameEarly(start int64, key []byte) {
	h.paneKey = append(appendStart(h.paneKey[:0], start), key...)
	entry, _, err := h.entries.Upsert(h.paneKey, h.entryBytes())
	if err != nil {
		panic("BUG: a pane that is there cannot be one too many: " + err.Error())
	}
	setDue(entry, never)
}

// fireEarly emits the open windows around the panes that are due, in the order (start, key bytes).
func (h *Hopping) fireEarly(due int64, out *pipeline.Out) {
	if state.LargeBuilt && h.far != nil {
		h.fireEarlyFar(due, out)
		return
	}
	type one struct {
		start int64
		id    int32
	}
	var all []one
	for _, p := range h.early.take() {
		h.cameEarly(p.start, h.series.list[p.id].key)
		for start := h.assign.last(p.start); start > p.start-h.assign.size && start+h.assign.size > due; start -= h.assign.slide {
			all = append(all, one{start, p.id})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.start, b.start), h.series.compare(a.id, b.id)) })
	for _, o := range slices.Compact(all) {
		out.SetTimer(due, o.start, h.series.list[o.id].key)
		h.fireOne(o.id, Span{o.start, o.start + h.assign.size}, true, out)
	}
}
