package codec

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec/zones"
)

// Fold says which instant a local time is that the clock shows twice, when it is put back.
type Fold uint8

// The folds.
const (
	FoldRefuse  Fold = iota // neither: the record is refused
	FoldFirst               // before the clock is put back (summer time)
	FoldSecond              // after it
	FoldNearest             // the one nearer to the arrival at this device while its clock is trusted, else the first
)

// Gap says what a local time is that the clock never shows, since it is put forward over it.
type Gap uint8

// The gaps.
const (
	GapRefuse Gap = iota
	GapShift      // read with the offset before the change: 02:30 is 03:30 summer time
)

var foldNames = []string{FoldRefuse: "reject", FoldFirst: "first", FoldSecond: "second", FoldNearest: "nearest"}
var gapNames = []string{GapRefuse: "reject", GapShift: "shift"}

// Folds and Gaps are the names that ParseFold and ParseGap read.
func Folds() []string { return slices.Clone(foldNames) }

// Gaps are the names that ParseGap reads.
func Gaps() []string { return slices.Clone(gapNames) }

// ParseFold reads a fold's name.
func ParseFold(s string) (Fold, error) {
	if i := slices.Index(foldNames, s); i >= 0 {
		return Fold(i), nil
	}
	return 0, fmt.Errorf("parse fold %q: want one of %q", s, foldNames)
}

// ParseGap reads a gap's name.
func ParseGap(s string) (Gap, error) {
	if i := slices.Index(gapNames, s); i >= 0 {
		return Gap(i), nil
	}
	return 0, fmt.Errorf("parse gap %q: want one of %q", s, gapNames)
}

// Local reads times that a local clock showed. It may be used from several goroutines.
type Local struct {
	layout, name string
	zone         *time.Location
	fold         Fold
	gap          Gap
}

// zonelessLayout is RFC 3339 without its zone.
const zonelessLayout = "2006-01-02T15:04:05"

// NewLocal makes the reader of a zone of the time zone database, whose rules are those that this program brings along: the same on every device. layout is
// Go's: the reference time 2006-01-02 15:04:05 as the texts write theirs; "" is RFC 3339 without a zone.
func NewLocal(layout, zone string, fold Fold, gap Gap) (*Local, error) {
	if layout == "" {
		layout = zonelessLayout
	}
	if err := checkLayout(layout); err != nil {
		return nil, err
	}
	loc, err := zones.Load(zone)
	if err != nil {
		return nil, err
	}
	return &Local{layout: layout, name: zone, zone: loc, fold: fold, gap: gap}, nil
}

// checkLayout demands a date and a time of day, down to the minute, and no zone.
func checkLayout(layout string) error {
	at := time.Date(2033, time.November, 22, 21, 44, 0, 0, time.UTC)
	read, err := time.ParseInLocation(layout, at.Format(layout), time.UTC)
	if err != nil || !read.Equal(at) {
		return fmt.Errorf("the layout %q does not hold a whole time: write the time 2006-01-02 15:04:05 as the texts write theirs", layout)
	}
	other := time.FixedZone("XYZ", -5*3600)
	if at.In(other).Format(layout) != time.Date(2033, time.November, 22, 16, 44, 0, 0, time.UTC).Format(layout) {
		return fmt.Errorf("the layout %q holds a zone: the setting zone says it", layout)
	}
	return nil
}

// String is the canonical form, for the plan's hash.
func (l *Local) String() string {
	return fmt.Sprintf("%q %q %s %s", l.layout, l.name, foldNames[l.fold], gapNames[l.gap])
}

// Parse gives the Unix milliseconds of a local time, rounded down. stamp is that of the record.
func (l *Local) Parse(v pipeline.Value, stamp pipeline.Stamp) (int64, error) {
	if v.Kind != pipeline.String {
		return 0, fmt.Errorf("parse time: want a local time such as %q, found %s", l.layout, v.Kind)
	}
	shown, err := time.ParseInLocation(l.layout, v.Str, time.UTC)
	if err != nil {
		return 0, fmt.Errorf("parse time: want a local time such as %q, found %s", l.layout, excerpt(v.Str))
	}
	return l.instant(shown, v.Str, stamp)
}

// zoneReach is more than any zone is from UTC, and than a zone has ever moved at once (a day).
const zoneReach = 30 * time.Hour

// instant finds when the clock of the zone showed a time, given as if it were UTC: of the offsets around it those count that hold at the instant which
// they give. (Time.ZoneBounds would name the changes, but has false ones at the ends of leap years.)
func (l *Local) instant(shown time.Time, text string, stamp pipeline.Stamp) (int64, error) {
	_, before := shown.Add(-zoneReach).In(l.zone).Zone()
	_, after := shown.Add(zoneReach).In(l.zone).Zone()
	var found [2]int64
	n := 0
	for _, offset := range [2]int{before, after} {
		at := shown.Add(-time.Duration(offset) * time.Second)
		if _, holds := at.In(l.zone).Zone(); holds == offset && (n == 0 || before != after) {
			found[n] = at.UnixMilli()
			n++
		}
	}
	switch {
	case n == 1:
		return found[0], nil
	case n == 0 && l.gap == GapShift:
		return shown.Add(-time.Duration(before) * time.Second).UnixMilli(), nil
	case n == 0:
		return 0, fmt.Errorf("parse time: the clock of %s never showed %s: it was put forward over it", l.name, whole(text))
	}
	first, second := min(found[0], found[1]), max(found[0], found[1])
	switch l.fold {
	case FoldFirst:
		return first, nil
	case FoldSecond:
		return second, nil
	case FoldNearest:
		if stamp.Trusted && stamp.Wall > first+(second-first)/2 {
			return second, nil
		}
		return first, nil
	}
	return 0, fmt.Errorf("parse time: the clock of %s showed %s twice", l.name, whole(text))
}

// whole quotes a text that is a time, and so not long.
func whole(text string) string { return strconv.Quote(text[:min(len(text), 64)]) }

// ParseRFC3339 gives the Unix milliseconds of an RFC 3339 time, rounded down. local reads those without a zone; nil: they are refused. A leap second is
// the second that follows it, as on POSIX clocks; it is taken at the end of a day in UTC only.
func ParseRFC3339(v pipeline.Value, local *Local, stamp pipeline.Stamp) (int64, error) {
	if v.Kind != pipeline.String {
		return 0, fmt.Errorf("parse time: want %s, found %s", RFC3339.wants(), v.Kind)
	}
	refuse := func() (int64, error) {
		return 0, fmt.Errorf("parse time: want %s, found %s", RFC3339.wants(), excerpt(v.Str))
	}
	t, zoned, leap, ok := splitRFC3339(v.Str)
	switch {
	case !ok:
		return refuse()
	case !zoned && local == nil:
		return 0, fmt.Errorf("parse time: %s has no zone: set zone", whole(v.Str))
	case !zoned && leap:
		return refuse() // whether it is the end of a day in UTC is not known yet
	case !zoned:
		return local.instant(t, v.Str, stamp)
	case leap && t.Add(time.Second).Unix()%86400 != 0:
		return refuse()
	case leap:
		t = t.Add(time.Second)
	}
	return t.UnixMilli(), nil // rounds down: the nanoseconds of a Time are never negative
}

// splitRFC3339 reads the text strictly: two digits where the RFC has two, a point before a fraction. Without a zone the time is as if it were UTC. A leap
// second gives the second before it.
func splitRFC3339(s string) (t time.Time, zoned, leap, ok bool) {
	const head = len(zonelessLayout)
	if len(s) < head || len(s) > 64 || s[10] != 'T' && s[10] != 't' {
		return t, false, false, false
	}
	number := func(from, digits int) int {
		n := 0
		for _, c := range []byte(s[from : from+digits]) {
			if c < '0' || c > '9' {
				ok = false
				return 0
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	ok = s[4] == '-' && s[7] == '-' && s[13] == ':' && s[16] == ':'
	year, month, day := number(0, 4), number(5, 2), number(8, 2)
	hour, minute, second := number(11, 2), number(14, 2), number(17, 2)
	if leap = second == 60; leap {
		second = 59
	}
	rest := s[head:]
	nanos := 0
	if rest != "" && rest[0] == '.' {
		end := 1
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		if end == 1 {
			return t, false, false, false
		}
		digits := (rest[1:end] + "000000000")[:9] // what lies below a nanosecond is cut: rounded down
		nanos, _ = strconv.Atoi(digits)
		rest = rest[end:]
	}
	offset, zoned, zoneOK := parseOffset(rest)
	if !ok || !zoneOK || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return t, false, false, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day {
		return t, false, false, false // the month has no such day
	}
	return t.Add(-time.Duration(offset) * time.Second), zoned, leap, true
}

// parseOffset reads Z or ±hh:mm; nothing at all is no zone.
func parseOffset(s string) (seconds int, zoned, ok bool) {
	switch {
	case s == "":
		return 0, false, true
	case s == "Z" || s == "z":
		return 0, true, true
	case len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':':
		return 0, false, false
	}
	for _, i := range []int{1, 2, 4, 5} {
		if s[i] < '0' || s[i] > '9' {
			return 0, false, false
		}
	}
	hours, minutes := int(s[1]-'0')*10+int(s[2]-'0'), int(s[4]-'0')*10+int(s[5]-'0')
	if hours > 23 || minutes > 59 {
		return 0, false, false
	}
	seconds = hours*3600 + minutes*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true, true
}
