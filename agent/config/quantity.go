package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DurationPattern is what a duration looks like: one or more numbers with units, the largest first.
const DurationPattern = `^([0-9]+(\.[0-9]+)? ?(d|h|min|m|s|ms|us|ns) ?)+$`

var durationPart = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]+))? ?(day|days|d|h|min|ms|m|sec|s|us|µs|ns) ?`)

var durationUnits = map[string]time.Duration{
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "min": time.Minute,
	"s": time.Second, "sec": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "µs": time.Microsecond, "ns": time.Nanosecond,
}

// ParseDuration reads 250ms, 5s, 1.5h, 1d, 1h30m, and Flink's "10 s" and "3min". A number without a unit is refused, except 0.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	if rest == "0" {
		return 0, nil
	}
	if rest == "" {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	var sum time.Duration
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		rest = rest[len(m[0]):]
		unit := durationUnits[m[3]]
		whole, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || whole > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		part := time.Duration(whole) * unit
		if m[2] != "" {
			fraction, _ := strconv.ParseFloat("0."+m[2], 64)
			part += time.Duration(math.Round(fraction * float64(unit)))
		}
		if part < 0 || sum > math.MaxInt64-part {
			return 0, fmt.Errorf("%q is too long", text)
		}
		sum += part
	}
	return sum, nil
}

// FormatDuration writes a duration as a config would: 1d, 90s as 1m30s, 250ms.
func FormatDuration(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return strings.TrimSuffix(s, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(s, "h0m")]
}

// durationKind is a duration in [least, most]. never is a word that means zero ("never", "" for none).
type durationKind struct {
	least, most time.Duration
	never       string
}

func (k durationKind) label() string {
	s := "a duration such as 10s, 5m or 1d"
	switch {
	case k.most > 0:
		s += fmt.Sprintf(" from %s to %s", FormatDuration(k.least), FormatDuration(k.most))
	case k.least > 0:
		s += fmt.Sprintf(" of at least %s", FormatDuration(k.least))
	}
	if k.never != "" {
		s += ", or " + k.never
	}
	return s
}

func (k durationKind) schema() map[string]any {
	pattern := DurationPattern
	if k.never != "" {
		pattern = "^" + k.never + "$|" + pattern
	}
	if k.least == 0 {
		return map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": pattern}, map[string]any{"const": 0}}}
	}
	return map[string]any{"type": "string", "pattern": pattern}
}

func (durationKind) reads(*time.Duration) {}
func (k durationKind) read(r *reader, n *node, place any) {
	into := place.(*time.Duration)
	if n.shape != shapeScalar {
		r.wrong(n, k.label())
		return
	}
	if k.never != "" && n.text == k.never {
		*into = 0
		return
	}
	d, err := ParseDuration(n.text)
	if err != nil || d < k.least || k.most > 0 && d > k.most {
		if _, bare := strconv.ParseFloat(n.text, 64); bare == nil && err != nil {
			r.problems.Add(n.pos, "", "a value here is "+k.label(), "%s has no unit", n.describe())
			return
		}
		r.wrong(n, k.label())
		return
	}
	*into = d
}

// wholeMs is a duration in whole milliseconds, as event time counts.
type wholeMs struct{ durationKind }

func (wholeMs) reads(*int64) {}
func (k wholeMs) read(r *reader, n *node, place any) {
	into := place.(*int64)
	var d time.Duration
	before := len(*r.problems)
	k.durationKind.read(r, n, &d)
	if d%time.Millisecond != 0 && len(*r.problems) == before {
		r.problems.Add(n.pos, "", "event time counts whole milliseconds", "found %s", n.describe())
	}
	*into = d.Milliseconds()
}

// nanoseconds is a duration stored as int64 nanoseconds.
type nanoseconds struct{ durationKind }

func (nanoseconds) reads(*int64) {}
func (k nanoseconds) read(r *reader, n *node, place any) {
	into := place.(*int64)
	var d time.Duration
	k.durationKind.read(r, n, &d)
	*into = int64(d)
}

// SizePattern is what a size looks like.
const SizePattern = `^[0-9]+(\.[0-9]+)? ?(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$`

var sizeParts = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$`)

var sizeUnits = map[string]float64{
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ParseSize reads 512B, 64KiB, 1GiB, 1.5MB. KiB, MiB, GiB count in 1024, kB, MB, GB in 1000. A bare number is bytes.
func ParseSize(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	m := sizeParts.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is no size", text)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil || f*sizeUnits[m[2]] > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return int64(f * sizeUnits[m[2]]), nil
}

// FormatSize writes a size in the largest unit that keeps it whole.
func FormatSize(bytes int64) string {
	units := []string{"TiB", "GiB", "MiB", "KiB"}
	if bytes%(1<<20) != 0 { // as data sheets have it
		units = []string{"TB", "GB", "KiB"}
	}
	for _, u := range units {
		if unit := int64(sizeUnits[u]); bytes >= unit && bytes%unit == 0 {
			return strconv.FormatInt(bytes/unit, 10) + u
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// sizeKind is a number of bytes in [least, most]. none is a word that means 0 ("none": no limit), "" for none.
type sizeKind struct {
	least, most int64
	none        string
}

func (k sizeKind) label() string {
	s := "a size such as 64KiB or 1GiB"
	switch {
	case k.most > 0:
		s += fmt.Sprintf(" from %s to %s", FormatSize(k.least), FormatSize(k.most))
	case k.least > 0:
		s += " of at least " + FormatSize(k.least)
	}
	if k.none != "" {
		s += ", or " + k.none
	}
	return s
}

func (k sizeKind) schema() map[string]any {
	pattern := SizePattern
	if k.none != "" {
		pattern = "^" + k.none + "$|" + pattern
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": pattern}, map[string]any{"type": "integer", "minimum": k.least}}}
}

func (sizeKind) reads(*int64) {}
func (k sizeKind) read(r *reader, n *node, place any) {
	into := place.(*int64)
	if k.none != "" && n.shape == shapeScalar && n.text == k.none {
		*into = 0
		return
	}
	bytes, err := ParseSize(n.text)
	if n.shape != shapeScalar || err != nil || bytes < k.least || k.most > 0 && bytes > k.most {
		r.wrong(n, k.label())
		return
	}
	*into = bytes
}
