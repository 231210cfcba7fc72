package uplink

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Window is a time of day during which a metered link may be used: minutes since midnight, [From, To). Past midnight when To is not
// behind From.
type Window struct{ From, To int }

// dayMinutes is the minutes of a day by the clock on the wall, which has 24 hours on every day.
const dayMinutes = 24 * 60

// ParseWindow reads "22:00-06:00". The end may be 24:00.
func ParseWindow(text string) (w Window, err error) {
	from, to, ok := strings.Cut(text, "-")
	if ok {
		w.From, err = parseMinute(from)
	}
	if ok && err == nil {
		w.To, err = parseMinute(to)
	}
	if !ok || err != nil {
		return Window{}, fmt.Errorf("%q is no window, want one such as 22:00-06:00", text)
	}
	if w.From%dayMinutes == w.To%dayMinutes && w != (Window{0, dayMinutes}) {
		return Window{}, fmt.Errorf("the window %q begins where it ends", text)
	}
	if w.From == dayMinutes {
		return Window{}, fmt.Errorf("the window %q begins at 24:00, which is 00:00", text)
	}
	return w, nil
}

func parseMinute(text string) (int, error) {
	if len(text) != 5 || text[2] != ':' {
		return 0, strconv.ErrSyntax
	}
	h, err := strconv.ParseUint(text[:2], 10, 8)
	if err != nil {
		return 0, err
	}
	m, err := strconv.ParseUint(text[3:], 10, 8)
	if err != nil || m > 59 || h*60+m > dayMinutes {
		return 0, strconv.ErrSyntax
	}
	return int(h*60 + m), nil
}

func (w Window) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", w.From/60, w.From%60, w.To/60, w.To%60)
}

// open tells whether a minute of the day lies in the window.
func (w Window) open(minute int) bool {
	if w.From < w.To {
		return w.From <= minute && minute < w.To
	}
	return minute >= w.From || minute < w.To
}

// Windows are the times at which a metered link may be used, by the wall clock of a zone. Without one it is always open.
type Windows struct {
	List []Window
	Zone *time.Location
}

// Open tells whether the link may be used at t. It follows the clock on the wall: an hour that is skipped or comes twice is shorter or
// longer by that.
func (w *Windows) Open(t time.Time) bool {
	if len(w.List) == 0 {
		return true
	}
	t = t.In(w.Zone)
	minute := t.Hour()*60 + t.Minute()
	for _, x := range w.List {
		if x.open(minute) {
			return true
		}
	}
	return false
}

// Next is the first begin of a window behind t, by the clock on the wall.
func (w *Windows) Next(t time.Time) (next time.Time) {
	t = t.In(w.Zone)
	y, m, d := t.Date()
	for _, x := range w.List {
		at := time.Date(y, m, d, 0, x.From, 0, 0, w.Zone)
		if !at.After(t) {
			at = time.Date(y, m, d+1, 0, x.From, 0, 0, w.Zone)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}
