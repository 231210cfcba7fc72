package codec

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec/zones"
)

func newLocal(t testing.TB, layout, zone string, fold Fold, gap Gap) *Local {
	t.Helper()
	l, err := NewLocal(layout, zone, fold, gap)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const sqlLayout = "2006-01-02 15:04:05"

// TestLocalTimesAgainstEveryInstant reads what a clock showed at each quarter of an hour of some years, and compares with all instants at which it did.
func TestLocalTimesAgainstEveryInstant(t *testing.T) {
	for _, c := range []struct {
		zone     string
		from, to int
	}{
		{"Europe/Berlin", 2025, 2027}, {"America/New_York", 2026, 2027}, {"Australia/Lord_Howe", 2025, 2027}, {"Pacific/Apia", 2011, 2012},
		{"Africa/Casablanca", 2026, 2027}, {"Asia/Kathmandu", 2026, 2027}, {"UTC", 2026, 2027}, {"Europe/Berlin", 2090, 2091}, {"Europe/Dublin", 1971, 1972},
	} {
		zone, err := zones.Load(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string][]int64{}
		start, end := time.Date(c.from, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(c.to, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := start.Add(-48 * time.Hour); at.Before(end.Add(48 * time.Hour)); at = at.Add(15 * time.Minute) {
			text := at.In(zone).Format(sqlLayout)
			shown[text] = append(shown[text], at.UnixMilli())
		}
		first, second := newLocal(t, sqlLayout, c.zone, FoldFirst, GapRefuse), newLocal(t, sqlLayout, c.zone, FoldSecond, GapShift)
		folds, gaps := 0, 0
		for at := start; at.Before(end); at = at.Add(15 * time.Minute) {
			text := at.Format(sqlLayout)
			want := shown[text]
			a, err := first.Parse(pipeline.StringValue(text), pipeline.Stamp{})
			b, shift := second.Parse(pipeline.StringValue(text), pipeline.Stamp{})
			switch len(want) {
			case 0:
				gaps++
				if err == nil || shift != nil {
					t.Fatalf("%s in %s: never shown, read as %d (%v), shifted %v", text, c.zone, a, err, shift)
				}
				// Shifted, it stands as far behind the change as it was written behind it.
				if back := time.UnixMilli(b).In(zone).Format(sqlLayout); back <= text {
					t.Fatalf("%s in %s: shifted to %s", text, c.zone, back)
				}
			case 1, 2:
				if len(want) == 2 {
					folds++
				}
				if err != nil || shift != nil || a != want[0] || b != want[len(want)-1] {
					t.Fatalf("%s in %s: %d and %d (%v, %v), want %v", text, c.zone, a, b, err, shift, want)
				}
			}
		}
		t.Logf("%s %d: %d times twice, %d never", c.zone, c.from, folds, gaps)
		if c.zone == "Europe/Berlin" && (folds == 0 || gaps == 0) {
			t.Error("no change of the clock was met")
		}
	}
}

func TestLocalTimeByArrival(t *testing.T) {
	l := newLocal(t, sqlLayout, "Europe/Berlin", FoldNearest, GapRefuse)
	const first, second = 1792886400000, 1792890000000 // 2026-10-25 02:00:00
	for _, c := range []struct {
		wall    int64
		trusted bool
		want    int64
	}{
		{first + 1000, true, first}, {second + 1000, true, second}, {second + 1000, false, first}, {first - 1e9, true, first}, {second + 1e9, true, second},
		{5000, true, first}, {5000, false, first}, // a clock that starts in 1970
	} {
		got, err := l.Parse(pipeline.StringValue("2026-10-25 02:00:00"), pipeline.Stamp{Wall: c.wall, Trusted: c.trusted})
		if err != nil || got != c.want {
			t.Errorf("arrived at %d (trusted %v): %d %v, want %d", c.wall, c.trusted, got, err, c.want)
		}
	}
}

func TestLocalRefusals(t *testing.T) {
	l := newLocal(t, sqlLayout, "Europe/Berlin", FoldRefuse, GapRefuse)
	for text, want := range map[string]string{
		"2026-10-25 02:30:00": `parse time: the clock of Europe/Berlin showed "2026-10-25 02:30:00" twice`,
		"2026-03-29 02:30:00": `parse time: the clock of Europe/Berlin never showed "2026-03-29 02:30:00": it was put forward over it`,
		"2026-02-29 00:00:00": `parse time: want a local time such as "2006-01-02 15:04:05", found "2026-02-29 00:00"`,
		"2026-01-01T00:00:00": `parse time: want a local time such as`,
		"":                    `parse time: want a local time such as`,
	} {
		if _, err := l.Parse(pipeline.StringValue(text), pipeline.Stamp{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := l.Parse(pipeline.IntValue(5), pipeline.Stamp{}); err == nil {
		t.Error("a number is no local time")
	}
	for layout, part := range map[string]string{
		"2006-01-02": "whole time", "15:04:05": "whole time", "2006-01-02 03:04:05": "whole time", "2006-01-02 15:04:05 MST": "zone",
		"2006-01-02T15:04:05Z07:00": "zone", "yyyy-MM-dd HH:mm": "whole time",
	} {
		if _, err := NewLocal(layout, "Europe/Berlin", 0, 0); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("layout %q: %v", layout, err)
		}
	}
	for _, layout := range []string{"02.01.2006 15:04", "01/02/06 03:04:05 PM", "2006002 150405"} {
		newLocal(t, layout, "UTC", 0, 0)
	}
	if _, err := NewLocal("", "Mars/Olympus", 0, 0); err == nil {
		t.Error("a zone that is not there")
	}
}

func TestRFC3339WithoutAZone(t *testing.T) {
	l := newLocal(t, "", "Europe/Berlin", FoldSecond, GapShift)
	for text, want := range map[string]int64{
		"2026-10-25T02:00:00": 1792890000000, "2026-10-25T02:00:00+02:00": 1792886400000, "2026-03-29T02:30:00.5": 1774747800500, "2026-01-01T00:00:00Z": 1767225600000,
	} {
		if got, err := ParseRFC3339(pipeline.StringValue(text), l, pipeline.Stamp{}); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	if _, err := ParseRFC3339(pipeline.StringValue("2016-12-31T23:59:60"), l, pipeline.Stamp{}); err == nil {
		t.Error("a leap second without a zone")
	}
}

// FuzzRFC3339 compares with the time package, which takes all that this reader takes, except leap seconds and lower case.
func FuzzRFC3339(f *testing.F) {
	for _, s := range []string{"2026-01-01T00:00:00Z", "2016-12-31T23:59:60Z", "2026-01-01t01:00:00.123456789123+01:00", "2024-02-29T00:00:00-23:59", "2026-01-01T00:00:00", "0000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T0:00:00Z"} {
		f.Add(s)
	}
	l := newLocal(f, "", "UTC", FoldFirst, GapRefuse)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseRFC3339(pipeline.StringValue(s), nil, pipeline.Stamp{})
		if local, err := ParseRFC3339(pipeline.StringValue(s+"Z"), nil, pipeline.Stamp{}); err == nil && !strings.Contains(s, ":60") {
			if same, err := ParseRFC3339(pipeline.StringValue(s), l, pipeline.Stamp{}); err != nil || same != local {
				t.Fatalf("%q in UTC: %d %v, with Z %d", s, same, err, local)
			}
		}
		want, wantErr := time.Parse(time.RFC3339, strings.ToUpper(s))
		if err == nil && wantErr != nil {
			if !strings.Contains(s, ":60") || got%86400000 >= 1000 {
				t.Fatalf("%q: taken as %d, the time package says %v", s, got, wantErr)
			}
			return
		}
		if err == nil && got != want.UnixMilli() {
			t.Fatalf("%q: %d, want %d", s, got, want.UnixMilli())
		}
	})
}

// FuzzLocalTime: what is read shows the same text on the clock of the zone, or the text lies in a gap.
func FuzzLocalTime(f *testing.F) {
	for _, s := range []string{"2026-10-25 02:00:00", "2026-03-29 02:30:00", "9999-12-31 23:59:59", "0001-01-01 00:00:00", "1893-04-01 00:03:00"} {
		f.Add(s)
	}
	first, second := newLocal(f, sqlLayout, "Europe/Berlin", FoldFirst, GapRefuse), newLocal(f, sqlLayout, "Europe/Berlin", FoldSecond, GapShift)
	zone, _ := zones.Load("Europe/Berlin")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := first.Parse(pipeline.StringValue(s), pipeline.Stamp{})
		b, shifted := second.Parse(pipeline.StringValue(s), pipeline.Stamp{})
		if err == nil && (shifted != nil || a > b) {
			t.Fatalf("%q: first %d, second %d %v", s, a, b, shifted)
		}
		shown, parseErr := time.Parse(sqlLayout, s)
		if err == nil && parseErr == nil && shown.Format(sqlLayout) == s { // not written in one of the ways that are taken besides, such as " 0:00:00"
			for _, ms := range []int64{a, b} {
				if back := time.UnixMilli(ms).In(zone).Format(sqlLayout); back != s {
					t.Fatalf("%q: %d is %s", s, ms, back)
				}
			}
		}
	})
}

func TestEveryZoneLoads(t *testing.T) {
	names := zones.Names()
	if len(names) < 400 || !slices.Contains(names, "Europe/Berlin") {
		t.Fatalf("%d zones", len(names))
	}
	for _, name := range names {
		if _, err := zones.Load(name); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "Local", "../etc/passwd", "Europe/", "europe/berlin"} {
		if _, err := zones.Load(bad); err == nil {
			t.Errorf("%q loads", bad)
		}
	}
}

// TestZonesDoNotComeFromTheDevice: the rules of the program count, whatever the device has.
func TestZonesDoNotComeFromTheDevice(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/Europe", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/Europe/Berlin", []byte("TZif"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONEINFO", dir)
	l := newLocal(t, sqlLayout, "Europe/Berlin", FoldFirst, GapRefuse)
	if got, err := l.Parse(pipeline.StringValue("2026-07-01 12:00:00"), pipeline.Stamp{}); err != nil || got != 1782900000000 {
		t.Error(got, err)
	}
}

func BenchmarkLocalTime(b *testing.B) {
	l := newLocal(b, sqlLayout, "Europe/Berlin", FoldFirst, GapRefuse)
	v := pipeline.StringValue("2026-07-01 12:00:00")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Parse(v, pipeline.Stamp{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLocalTimeAllocatesNothing(t *testing.T) {
	l := newLocal(t, sqlLayout, "Europe/Berlin", FoldFirst, GapRefuse)
	v := pipeline.StringValue("2026-10-25 02:00:00")
	if got := testing.AllocsPerRun(100, func() {
		if _, err := l.Parse(v, pipeline.Stamp{}); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
