package deadletter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
)

func bytesOf(e *Entry) ([]byte, error) { return e.Payload, nil }

// take gives what the feed has, as "1 2 3-5gap".
func take(t *testing.T, f *Feed, max int) (text string, last uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results, err := f.Next(ctx, max, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if last = r.Last; r.Kind == pipeline.ResultGap {
			text += fmt.Sprintf("%d-%dgap ", r.Seq, r.Last)
		} else {
			text += fmt.Sprintf("%d ", r.Seq)
		}
	}
	return text, last
}

// TestFeed: entries come under their numbers, whoever refused them; what was requeued too; what made room is a gap; upstream says where to go on.
func TestFeed(t *testing.T) {
	mem := disktest.NewMem()
	s := open(t, mem)
	defer func() { s.Close() }()
	if err := s.Append(t.Context(), entry("a", 7), entry("b", 2), entry("a", 9), entry("b", 5)); err != nil {
		t.Fatal(err)
	}
	ids := idsOf(t, s)
	if err := s.BeginRequeue(t.Context(), 1, ids[1:2]); err != nil {
		t.Fatal(err)
	}
	if err := s.EndRequeue(t.Context(), ids[1:2]); err != nil {
		t.Fatal(err)
	}
	f := NewFeed(s, bytesOf)
	if _, _, _, err := f.Seek(1, 0, 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := take(t, f, 3); got != "1 2 3 " {
		t.Errorf("took %q", got)
	}
	if err := f.Skip(t.Context(), 2, 2, "refused"); err != nil {
		t.Fatal(err)
	}
	if err := f.Confirm(3, 0); err != nil {
		t.Fatal(err)
	}
	if st := f.Stats(); st != (FeedStats{Kept: 4, Delivered: 2, Rejected: 1, Pending: 1}) {
		t.Errorf("%+v", st)
	}
	s.Close()
	s = open(t, mem)
	f = NewFeed(s, bytesOf)
	if known, _, _, err := f.Seek(1, 2, 0); err != nil || known != 2 { // an answer was lost
		t.Fatal(known, err)
	}
	if got, _ := take(t, f, 9); got != "3 4 " {
		t.Errorf("took %q behind a restart", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	if _, err := f.Next(ctx, 9, 100); err == nil {
		t.Error("there is more than was kept")
	}
	cancel()
	fill(t, s, 100, 1500) // most make room
	f.Resume()
	text, last := take(t, f, 1)
	gone := s.Stats().Evicted + s.Stats().Requeued
	if want := fmt.Sprintf("3-%dgap ", gone); text != want || last != gone {
		t.Errorf("took %q, want %q", text, want)
	}
	total := uint64(0)
	for last < s.Stats().Kept {
		before := last
		_, last = take(t, f, 500)
		total += last - before
		if err := f.Confirm(last, 0); err != nil {
			t.Fatal(err)
		}
	}
	if st := f.Stats(); st.Before != 2 || st.Delivered != total || st.Dropped != gone-2 || st.Pending != 0 || st.Kept != st.Before+st.Delivered+st.Dropped {
		t.Errorf("%+v, want %d delivered, %d dropped", st, total, gone-2)
	}
}

// TestFeedOfALostStore: numbers that upstream knows are not given out again.
func TestFeedOfALostStore(t *testing.T) {
	mem := disktest.NewMem()
	s := open(t, mem)
	fill(t, s, 1, 2)
	f := NewFeed(s, bytesOf)
	if _, _, _, err := f.Seek(1, 40, 0); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, mem)
	defer s.Close()
	f = NewFeed(s, bytesOf)
	if _, _, _, err := f.Seek(1, 40, 0); err != nil {
		t.Fatal(err)
	}
	if ids := fill(t, s, 3, 3); len(ids) != 3 {
		t.Errorf("%d letters are here", len(ids))
	}
	if got, _ := take(t, f, 9); got != "41 " {
		t.Errorf("took %q, want the new one under the number 41", got)
	}
}
