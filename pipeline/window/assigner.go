package window

import "fmt"

// Span is one window [Start, End) of time in ms.
type Span struct{ Start, End int64 }

// Compare orders windows as they fire: by end, then start.
func (s Span) Compare(o Span) int {
	switch {
	case s.End != o.End:
		if s.End < o.End {
			return -1
		}
		return 1
	case s.Start != o.Start:
		if s.Start < o.Start {
			return -1
		}
		return 1
	}
	return 0
}

// Assigner tells which windows a time belongs to. It is a value, keeps nothing and its methods are pure. The zero value is not valid.
type Assigner struct {
	size, slide, offset int64 // tumbling: size = slide
	gap                 int64 // of sessions; 0: none
	split               bool
}

// AssignTumbling assigns [offset + k*size, offset + (k+1)*size), k any integer.
func AssignTumbling(sizeMs, offsetMs int64) Assigner {
	return Assigner{size: sizeMs, slide: sizeMs, offset: offsetMs}
}

// AssignHopping assigns every [offset + k*slide, offset + k*slide + size) that holds the time.
func AssignHopping(sizeMs, slideMs, offsetMs int64) Assigner {
	return Assigner{size: sizeMs, slide: slideMs, offset: offsetMs}
}

// AssignSession assigns [t, t+gap); windows of one key that Meets are one session. split: windows that only touch stay two, so that a
// session ends when nothing came for the gap or longer; else they merge, as in Flink.
func AssignSession(gapMs int64, split bool) Assigner { return Assigner{gap: gapMs, split: split} }

// panesMax bounds how many panes a hopping window has, hence in how many windows a row can be and how many panes a key can hold.
const panesMax = 100_000

// Validate names what is out of range.
func (a Assigner) Validate() error {
	if a.gap != 0 {
		if a.gap < 0 || a.gap > spanMax {
			return fmt.Errorf("%w: session: gap is %d ms, want 1 to %d", ErrConfig, a.gap, int64(spanMax))
		}
		return nil
	}
	switch {
	case a.size <= 0 || a.size > spanMax:
		return fmt.Errorf("%w: size is %d ms, want 1 to %d", ErrConfig, a.size, int64(spanMax))
	case a.slide <= 0 || a.slide > spanMax:
		return fmt.Errorf("%w: slide is %d ms, want 1 to %d", ErrConfig, a.slide, int64(spanMax))
	case a.offset <= -a.slide || a.offset >= a.slide:
		return fmt.Errorf("%w: offset is %d ms, want less than the slide of %d ms", ErrConfig, a.offset, a.slide)
	case a.size/a.pane() > panesMax:
		return fmt.Errorf("%w: a window of %d ms is made of panes of %d ms (what size and slide have in common): %d panes for each key, want at most %d",
			ErrConfig, a.size, a.pane(), a.size/a.pane(), panesMax)
	}
	return nil
}

// Merging tells sessions: their windows grow together.
func (a Assigner) Merging() bool { return a.gap > 0 }

// AppendSpans appends the windows of a time, by rising start, which is also rising end. With a slide above the size there may be none.
func (a Assigner) AppendSpans(dst []Span, t int64) []Span {
	if a.gap > 0 {
		return append(dst, Span{t, t + a.gap})
	}
	first := len(dst)
	for start := a.last(t); start > t-a.size; start -= a.slide {
		dst = append(dst, Span{start, start + a.size})
	}
	for i, j := first, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// Meets tells whether two windows of one key are one session.
func (a Assigner) Meets(x, y Span) bool {
	if a.split {
		return x.Start < y.End && y.Start < x.End
	}
	return x.Start <= y.End && y.Start <= x.End
}

// Union is the session of two windows that meet.
func Union(x, y Span) Span { return Span{min(x.Start, y.Start), max(x.End, y.End)} }

// last is the latest start at or before t.
func (a Assigner) last(t int64) int64 { return floorTo(t, a.slide, a.offset) }

// pane is the size of the pieces that every window is made of: the greatest common divisor of size and slide (Li et al., "No pane, no
// gain", 2005).
func (a Assigner) pane() int64 {
	x, y := a.size, a.slide
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// floorTo gives the largest offset + k*step at or below t.
func floorTo(t, step, offset int64) int64 {
	past := (t - offset) % step
	if past < 0 {
		past += step
	}
	return t - past
}
