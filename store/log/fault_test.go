package log

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestFailedSyncLatches: after one failed fsync nothing is acknowledged any more, the sync is not tried again, and a reopened log holds
// what was acknowledged.
func TestFailedSyncLatches(t *testing.T) {
	m := disktest.NewMem()
	l, _ := mustOpen(t, m, small())
	var failed atomic.Int32
	l.OnDurable(func(_ uint64, err error) {
		if errors.Is(err, ErrFailed) {
			failed.Add(1)
		}
	})
	_, _ = l.Append([]byte("one"))
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.FailSyncs(1)
	_, _ = l.Append([]byte("two"))
	for range 3 {
		if err := l.Sync(t.Context()); !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
	}
	if _, err := l.Append([]byte("three")); !errors.Is(err, ErrFailed) || l.Durable() != 1 || l.Stats().Failed == nil {
		t.Fatal(err, l.Durable())
	}
	r, _ := l.Reader(1)
	if b, err := r.Next(t.Context()); err != nil || b.Last != 1 {
		t.Fatal("durable records must stay readable", err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	late := false
	l.OnDurable(func(_ uint64, err error) { late = errors.Is(err, ErrFailed) })
	if !late {
		t.Fatal("a watcher that comes after the failure is not told")
	}
	if err := l.Close(); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if failed.Load() != 1 {
		t.Fatalf("told %d times", failed.Load())
	}
	l, _ = mustOpen(t, m, small()) // the page cache still shows "two": it is written again and synced
	defer l.Close()
	(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
		after, _ := mustOpen(t, img, small())
		defer after.Close()
		if after.Last() != l.Last() {
			t.Errorf("last %d, a reader saw %d", after.Last(), l.Last())
		}
	})
}

func TestFailedWriteLatches(t *testing.T) {
	f := disktest.NewFaulty(disktest.NewMem())
	l, _ := mustOpen(t, f, small())
	_, _ = l.Append([]byte("one"))
	_ = l.Sync(t.Context())
	f.FailWrites(1)
	_, _ = l.Append([]byte("two"))
	if err := l.Sync(t.Context()); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	_ = l.Close()
	l, _ = mustOpen(t, f, small())
	defer l.Close()
	if l.Last() != 1 {
		t.Fatal(l.Last())
	}
}

// TestFullByMaxBytes: ErrFull at the limit, callbacks, and the end of full when 20 % is free.
func TestFullByMaxBytes(t *testing.T) {
	c := small()
	c.MaxBytes = 10 * c.SegmentBytes
	l, _ := mustOpen(t, disktest.NewMem(), c)
	defer l.Close()
	told := make(chan bool, 10)
	l.OnFull(func(full bool) { told <- full })
	var err error
	for err == nil {
		if _, err = l.Append(record(l.Last()+1, 1000)); err == nil {
			err = l.Sync(t.Context())
		}
	}
	if !errors.Is(err, ErrFull) || !<-told || l.Stats().LiveBytes > c.MaxBytes {
		t.Fatal(err, l.Stats())
	}
	if _, err := l.AppendReserved([]byte("carried")); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := l.segments[1].first
	if err := l.Trim(second); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(nil); !errors.Is(err, ErrFull) {
		t.Fatalf("10 %% is free: %v", err)
	}
	if err := l.Trim(l.segments[2].first); err != nil {
		t.Fatal(err)
	}
	if <-told || l.Stats().Full {
		t.Fatal("still full")
	}
	if _, err := l.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
}

// TestFullByReserve: the disk's reserve counts as full, and ends when somebody else frees the disk.
func TestFullByReserve(t *testing.T) {
	c := small()
	c.ReserveBytes = 100 << 10
	m := disktest.NewMem()
	l, _ := mustOpen(t, m, c)
	defer l.Close()
	_, _ = l.Append([]byte("x"))
	_ = l.Sync(t.Context())
	told := make(chan bool, 10)
	l.OnFull(func(full bool) { told <- full })
	m.SetFree(c.ReserveBytes + c.SegmentBytes - 1)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		if _, err = l.Append(record(l.Last()+1, 1000)); err == nil {
			err = l.Sync(t.Context())
		}
	}
	if !errors.Is(err, ErrFull) || !<-told {
		t.Fatal(err)
	}
	m.SetFree(1 << 30)
	select {
	case full := <-told:
		if full {
			t.Fatal("full again")
		}
	case <-time.After(time.Minute):
		t.Fatal("the free disk is not noticed")
	}
}

// TestNoSpaceLosesNothing: ENOSPC although the disk said that there is room: what was accepted waits, and is committed when there is.
func TestNoSpaceLosesNothing(t *testing.T) {
	f := disktest.NewFaulty(disktest.NewMem())
	f.LimitSpace(3*small().SegmentBytes + 100)
	l, _ := mustOpen(t, f, small())
	var err error
	for err == nil {
		if _, err = l.Append(record(l.Last()+1, 1000)); err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err = l.Sync(ctx)
			cancel()
		}
	}
	last := l.Last()
	f.LimitSpace(1 << 30)
	if err := l.Sync(t.Context()); err != nil || l.Durable() != last {
		t.Fatal(err, l.Durable(), last)
	}
	recs, _ := readAll(t, l, 1)
	if len(recs) != int(last) {
		t.Fatal(len(recs), last)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestVerdict(t *testing.T) {
	const seg, gib = 4 << 20, 1 << 30
	for _, c := range []struct {
		s    space
		full bool
		want bool
	}{
		{space{live: 0, max: gib, segment: seg, disk: gib}, false, false},
		{space{live: gib - seg, max: gib, segment: seg, disk: gib}, false, false},
		{space{live: gib - seg + 1, max: gib, segment: seg, disk: gib}, false, true},
		{space{live: gib * 85 / 100, max: gib, segment: seg, disk: gib}, true, true},
		{space{live: gib * 75 / 100, max: gib, segment: seg, disk: gib}, true, false},
		{space{live: 100 * seg, max: gib, segment: seg, disk: -5}, false, true},
		{space{live: 100 * seg, spare: seg, max: gib, segment: seg, disk: -5}, false, false},
		{space{live: 100 * seg, spare: seg, max: gib, segment: seg, disk: -5}, true, true},
	} {
		if got := c.s.verdict(c.full); got != c.want {
			t.Errorf("%+v, full %v: %v", c.s, c.full, got)
		}
	}
}

// TestLinger: a lone record is committed after Linger, without Sync.
func TestLinger(t *testing.T) {
	c := small()
	c.Linger = 2 * time.Millisecond
	l, _ := mustOpen(t, disktest.NewMem(), c)
	defer l.Close()
	done := make(chan uint64, 1)
	l.OnDurable(func(pos uint64, _ error) { done <- pos })
	start := time.Now()
	_, _ = l.Append([]byte("x"))
	<-done
	if took := time.Since(start); took < c.Linger {
		t.Fatalf("committed after %v", took)
	}
}

func TestLargeRecord(t *testing.T) {
	m := disktest.NewMem()
	l, _ := mustOpen(t, m, small())
	big := record(2, 300<<10)
	for _, rec := range [][]byte{record(1, 100), big, record(3, 100)} {
		if _, err := l.Append(rec); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sizes := []int{3, RecordBytesMax + 1, 3}
	put := func(dst []byte, i int) []byte { return append(dst, "abc"...) }
	if first, n, err := l.AppendAll(3, func(i int) int { return sizes[i] }, put); first != l.Last() || n != 1 || !errors.Is(err, ErrTooLarge) {
		t.Fatal(first, n, err) // what came before it is appended
	}
	if _, err := l.Append(make([]byte, RecordBytesMax+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	_ = l.Close()
	l, _ = mustOpen(t, m, small())
	defer l.Close()
	if recs, _ := readAll(t, l, 1); recs[2] != string(big) || recs[4] != "abc" || len(recs) != 4 {
		t.Fatal(len(recs))
	}
}
