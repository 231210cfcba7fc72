package uplink

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseWindow(t *testing.T) {
	for _, text := range []string{"22:00-06:00", "00:00-24:00", "09:30-09:31", "23:00-24:00"} {
		w, err := ParseWindow(text)
		if err != nil || w.String() != text {
			t.Errorf("%s: %v %v", text, w, err)
		}
	}
	for _, text := range []string{"", "22:00", "22:00-", "22-06", "9:00-10:00", "22:00-22:00", "24:00-06:00", "00:00-24:01", "22:60-23:00", "22:00–06:00", "-1:00-02:00", "25:00-26:00", "22:00-06:00-07:00"} {
		if w, err := ParseWindow(text); err == nil {
			t.Errorf("%q was taken as %v", text, w)
		}
	}
}

func TestWindowsFollowTheClockOnTheWall(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("this machine has no time zones: %v", err)
	}
	w := Windows{List: []Window{{22 * 60, 6 * 60}, {12 * 60, 13 * 60}}, Zone: berlin}
	for _, c := range []struct {
		at, next string
		open     bool
	}{
		{"2026-11-29T20:59:59Z", "2026-11-29T21:00:00Z", false},
		{"2026-11-29T21:00:00Z", "2026-11-30T11:00:00Z", true},
		{"2026-11-30T04:59:59Z", "2026-11-30T11:00:00Z", true},
		{"2026-11-30T05:00:00Z", "2026-11-30T11:00:00Z", false},
		{"2026-11-30T11:30:00Z", "2026-11-30T21:00:00Z", true},
		{"2026-07-01T19:59:00Z", "2026-07-01T20:00:00Z", false}, // summer time
		{"2026-07-01T20:00:00Z", "2026-07-02T10:00:00Z", true},
		{"2026-03-29T03:59:00Z", "2026-03-29T10:00:00Z", true}, // the night has seven hours: 05:59
		{"2026-03-29T04:00:00Z", "2026-03-29T10:00:00Z", false},
		{"2026-10-25T04:59:00Z", "2026-10-25T11:00:00Z", true}, // nine hours
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(at); got != c.open {
			t.Errorf("%s: open %v", c.at, got)
		}
		if got := w.Next(at).UTC().Format(time.RFC3339); got != c.next {
			t.Errorf("%s: next %s, want %s", c.at, got, c.next)
		}
	}
	if !(&Windows{}).Open(time.Now()) {
		t.Error("a link without windows is closed")
	}
}

// TestLinkWaitsForItsWindow: in virtual time, which begins at midnight UTC.
func TestLinkWaitsForItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trusted atomic.Bool
		l := &Link{Name: "lte", Windows: Windows{List: []Window{{22 * 60, 6 * 60}}, Zone: time.UTC}, AnyTime: PriorityHigh,
			Clock: func() (int64, bool) { return time.Now().UnixMilli(), trusted.Load() }}
		time.Sleep(12 * time.Hour) // noon
		said := map[string]bool{}
		told := func(why string) { said[why] = true }
		start := time.Now()
		if err := l.await(t.Context(), PriorityHigh, told); err != nil || time.Since(start) != 0 {
			t.Errorf("high waited %s: %v", time.Since(start), err)
		}
		go func() {
			time.Sleep(2 * time.Hour)
			trusted.Store(true)
		}()
		if err := l.await(t.Context(), PriorityNormal, told); err != nil || time.Since(start) != 10*time.Hour {
			t.Errorf("normal waited %s, want 10 h: %v", time.Since(start), err)
		}
		var all []string
		for why := range said {
			all = append(all, why)
		}
		if text := strings.Join(all, "|"); !strings.Contains(text, "clock") || !strings.Contains(text, "22:00 UTC") {
			t.Errorf("told %q", all)
		}
		time.Sleep(9 * time.Hour) // 07:00
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.await(ctx, PriorityNormal, told); err == nil {
			t.Error("the link was open at seven")
		}
		if err := (*Link)(nil).await(t.Context(), PriorityLow, told); err != nil {
			t.Error(err)
		}
	})
}
