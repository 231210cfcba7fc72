package log

import (
	"testing"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestALogIsAsLargeAsWhatItHolds: trimmed to little it stays at two small files, whatever went through it; what piles up makes the files grow; and
// it shrinks again.
func TestALogIsAsLargeAsWhatItHolds(t *testing.T) {
	c := small()
	c.SegmentBytesMin, c.SegmentBytes, c.SpareSegments = 8<<10, 64<<10, 2
	l, _ := mustOpen(t, disktest.NewMem(), c)
	defer l.Close()
	put := func(bytes int, trim bool) {
		t.Helper()
		for ; bytes > 0; bytes -= 1000 {
			pos, err := l.Append(record(l.Last()+1, 1000))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if trim {
				if err := l.Trim(pos); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	put(400_000, true)
	if s := l.Stats(); s.DiskBytes > 64<<10 || s.SegmentsMade > 12 {
		t.Errorf("trimmed: %d bytes on disk, %d files made", s.DiskBytes, s.SegmentsMade)
	}
	made := l.Stats().SegmentsMade
	put(400_000, false)
	if s := l.Stats(); s.SegmentsMade-made > 14 {
		t.Errorf("piling up: %d files made for 400 kB, they do not grow", s.SegmentsMade-made)
	}
	put(200_000, true)
	if s := l.Stats(); s.DiskBytes > 160<<10 {
		t.Errorf("trimmed again: %d bytes on disk", s.DiskBytes)
	}
}

func TestSegmentSize(t *testing.T) {
	for _, c := range []struct{ min, max, live, want int64 }{
		{0, 4 << 20, 0, 4 << 20}, {0, 4 << 20, 100 << 20, 4 << 20},
		{256 << 10, 4 << 20, 0, 256 << 10}, {256 << 10, 4 << 20, 256 << 10, 256 << 10}, {256 << 10, 4 << 20, 512 << 10, 256 << 10},
		{256 << 10, 4 << 20, 600 << 10, 512 << 10}, {256 << 10, 4 << 20, 100 << 20, 4 << 20}, {256 << 10, 8 << 10, 0, 8 << 10},
	} {
		config := Config{SegmentBytesMin: c.min, SegmentBytes: c.max}
		if got := config.segmentSize(c.live); got != c.want {
			t.Errorf("min %d, max %d, live %d: %d, want %d", c.min, c.max, c.live, got, c.want)
		}
	}
}
