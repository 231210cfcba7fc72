package window

import (
	"encoding/binary"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// missed counts a row for each of its windows up to the one that ends at last.
func (h *Hopping) missed(r *pipeline.Row, last int64, out *pipeline.Out) {
	for end := h.firstEnd(r.Time); end <= last; end += h.assign.slide {
		late(r, out)
	}
}

// againSpan gives the first end of the windows of a row that have fired but still take rows, and a bound of the last.
func (h *Hopping) againSpan(t, last int64) (first, to int64) {
	return max(h.firstEnd(t), h.closed()+h.assign.slide), min(last, h.watermark)
}

// again fires those windows, for the key of the row.
func (h *Hopping) again(id int32, t, last int64, out *pipeline.Out) {
	for end, to := h.againSpan(t, last); end <= to; end += h.assign.slide {
		h.fireOne(id, Span{end - h.assign.size, end}, true, out)
	}
}

// fireOne emits a window of one key, when it holds anything. stays: the firing is counted, more may follow.
func (h *Hopping) fireOne(id int32, w Span, stays bool, out *pipeline.Out) bool {
	s := &h.series.list[id]
	c, some := h.fold(s, w)
	if !some {
		return false
	}
	revision := uint32(0)
	if h.firings != nil {
		revision = h.countFiring(w, id, stays)
	}
	h.fire(w, revision, s.key, c, w.End-1, out)
	return true
}

// countFiring gives how often a window has fired, and counts this time.
func (h *Hopping) countFiring(w Span, id int32, stays bool) uint32 {
	h.windowKey = append(appendStart(h.windowKey[:0], w.Start), h.series.list[id].key...)
	var revision uint32
	if b, ok := h.firings.Get(h.windowKey); ok {
		revision = binary.LittleEndian.Uint32(b)
	}
	if !stays {
		if revision > 0 {
			h.firings.Delete(h.windowKey)
		}
		return revision
	}
	b, created, err := h.firings.Upsert(h.windowKey, firingsBytes)
	mustPut(err)
	switch {
	case !created:
	case state.LargeBuilt && h.far != nil:
		h.counted.note(w.Start)
	default:
		h.counted.add(w.Start, id)
	}
	binary.LittleEndian.PutUint32(b, revision+1)
	return revision
}

// nextEnd is the end of the next window that holds a pane, pipeline.NoDeadline for none.
func (h *Hopping) nextEnd() int64 {
	from := int64(math.MinInt64)
	if h.fired != math.MinInt64 {
		from = h.fired + h.assign.slide - h.assign.size
	}
	start, ok := h.panes.from(from)
	if !ok {
		return pipeline.NoDeadline
	}
	return max(h.firstEnd(start), h.fired+h.assign.slide)
}

// fireWindow emits a window for each key that has rows in it, in the order of key bytes.
func (h *Hopping) fireWindow(w Span, watermark int64, out *pipeline.Out) {
	stays := h.c.LatenessMs > 0 && watermark < w.End+h.c.LatenessMs
	if state.LargeBuilt && h.far != nil {
		h.fireFar(w, stays, out)
		return
	}
	h.panes.cover(w.End, h.series.activate)
	h.series.walk(func(id int32) (keep bool) {
		out.SetTimer(w.End, w.Start, h.series.list[id].key)
		return h.fireOne(id, w, stays, out)
	})
}
