package deadletter

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

func fill(t *testing.T, s *Store, first, last uint64) (ids []uint64) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		if err := s.Append(t.Context(), entry("a", seq)); err != nil {
			t.Fatal(err)
		}
	}
	return idsOf(t, s)
}

func idsOf(t *testing.T, s *Store) (ids []uint64) {
	t.Helper()
	all, err := s.List(context.Background(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

// balanced checks the store's own ledger, against what can be listed.
func balanced(t *testing.T, s *Store) {
	t.Helper()
	if why := imbalance(t, s); why != "" {
		t.Error(why)
	}
}

func imbalance(t *testing.T, s *Store) string {
	t.Helper()
	st := s.Stats()
	if n := uint64(len(idsOf(t, s))); st.Held != n || st.Kept != st.Held+st.Evicted+st.Expired+st.Requeued {
		return "the counts do not match what is there"
	}
	return ""
}

func TestRequeueRemovesOnce(t *testing.T) {
	mem := disktest.NewMem()
	s := open(t, mem)
	ids := fill(t, s, 1, 9)
	if err := s.BeginRequeue(t.Context(), 40, []uint64{ids[4], ids[1], ids[2]}); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginRequeue(t.Context(), 40, ids[:1]); !errors.Is(err, ErrRequeueing) {
		t.Errorf("a second one: %v", err)
	}
	s.Close()
	s = open(t, mem) // a crash: nobody knows whether they are in the journal
	after, begun, ok := s.Requeueing()
	if !ok || after != 40 || !slices.Equal(begun, []uint64{ids[1], ids[2], ids[4]}) {
		t.Fatalf("behind %d: %v %v", after, begun, ok)
	}
	if n := len(idsOf(t, s)); n != 9 {
		t.Errorf("%d letters, want all 9: none is known to be in the journal", n)
	}
	if err := s.EndRequeue(t.Context(), []uint64{ids[1], ids[4]}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, mem)
	defer s.Close()
	if _, _, ok := s.Requeueing(); ok {
		t.Error("the requeue goes on for ever")
	}
	if got, want := idsOf(t, s), slices.Delete(slices.Delete(slices.Clone(ids), 4, 5), 1, 2); !slices.Equal(got, want) {
		t.Errorf("%v are here, want %v", got, want)
	}
	if err := s.BeginRequeue(t.Context(), 50, ids[1:2]); !errors.Is(err, ErrGone) {
		t.Errorf("a removed one again: %v", err)
	}
	if st := s.Stats(); st.Requeued != 2 || st.Held != 7 {
		t.Errorf("%+v", st)
	}
	balanced(t, s)
}

// TestCountsSurviveEviction: with removals between, over restarts, until everything of the first entries was recycled. With the planted
// fault the sums do not match.
func TestCountsSurviveEviction(t *testing.T) {
	for _, planted := range []bool{false, true} {
		mem := disktest.NewMem()
		s := open(t, mem)
		s.faults.keepUncounted = planted
		found := ""
		for round := range uint64(12) {
			ids := fill(t, s, round*100+1, round*100+100)
			if err := s.BeginRequeue(t.Context(), 1, ids[len(ids)-9:]); err != nil {
				t.Fatal(err)
			}
			if err := s.EndRequeue(t.Context(), ids[len(ids)-9:len(ids)-2]); err != nil {
				t.Fatal(err)
			}
			found += imbalance(t, s)
			s.Close()
			s = open(t, mem)
			s.faults.keepUncounted = planted
			found += imbalance(t, s)
		}
		if st := s.Stats(); !planted && (st.Kept != 1200 || st.Requeued != 84 || st.Evicted == 0) {
			t.Errorf("%+v", st)
		}
		s.Close()
		if (found != "") != planted {
			t.Errorf("planted %v: %q", planted, found)
		}
	}
}

// TestRequeueInEveryCrashState: once BeginRequeue has returned every state says so; once EndRequeue has, the letters are away.
func TestRequeueInEveryCrashState(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	c := &disktest.Crasher{Seed: seed, PerCall: 24}
	mem := disktest.NewMem()
	s := open(t, mem)
	defer s.Close()
	ids := fill(t, s, 1, 6)
	begun, ended, salt := false, false, uint64(0)
	mem.OnOp(func(string) {
		salt++
		c.Images(mem, salt, func(image *disktest.Mem) {
			s := open(t, image)
			defer s.Close()
			_, _, going := s.Requeueing()
			n := len(idsOf(t, s))
			switch {
			case n != 6 && n != 4, n == 4 && going, begun && !ended && n == 6 && !going, ended && (n != 4 || going):
				t.Errorf("seed %d: begun %v, ended %v: %d letters, requeueing %v", seed, begun, ended, n, going)
			}
			balanced(t, s)
		})
	})
	if err := s.BeginRequeue(t.Context(), 7, ids[:2]); err != nil {
		t.Fatal(err)
	}
	begun = true
	if err := s.EndRequeue(t.Context(), ids[:2]); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := s.Append(t.Context(), entry("a", 6)); err != nil { // a repeat: one more sync
		t.Fatal(err)
	}
	mem.OnOp(nil)
	if c.Distinct() < 6 {
		t.Errorf("only %d states", c.Distinct())
	}
}

func TestExpire(t *testing.T) {
	mem := disktest.NewMem()
	now := pipeline.Stamp{Elapsed: 1, Wall: 1e12, Trusted: true}
	again := func() *Store {
		config := small()
		config.MaxAge = time.Hour
		s, _, err := Open(Options{FS: mem, Dir: "dead", Config: config, Stamp: func() pipeline.Stamp { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(s *Store, expired uint64, held int) {
		t.Helper()
		if st := s.Stats(); st.Expired != expired || len(idsOf(t, s)) != held {
			t.Errorf("%+v and %d listed, want %d expired, %d held", st, len(idsOf(t, s)), expired, held)
		}
		balanced(t, s)
	}
	expire := func(s *Store) {
		t.Helper()
		if _, err := s.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := again()
	fill(t, s, 1, 10)
	expire(s)
	want(s, 0, 10)
	now.Wall, now.Trusted = 1, false // the clock was lost: only the agent's life counts
	expire(s)
	want(s, 0, 10)
	now = pipeline.Stamp{Elapsed: 2, Wall: 1e12 + 3_600_001, Trusted: true}
	fill(t, s, 11, 15)
	ids := idsOf(t, s)
	if err := s.BeginRequeue(t.Context(), 1, ids[3:4]); err != nil {
		t.Fatal(err)
	}
	if err := s.EndRequeue(t.Context(), ids[3:4]); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = again()
	expire(s)
	want(s, 9, 5) // one of the ten was requeued
	s.Close()
	s = again()
	want(s, 9, 5)
	now = pipeline.Stamp{Elapsed: int64(2 * time.Hour), Wall: 1, Trusted: false}
	expire(s)
	want(s, 14, 0)
	fill(t, s, 16, 16)
	want(s, 14, 1)
	s.Close()
}

// TestReadsVersion1: entries without numbers are counted back.
func TestReadsVersion1(t *testing.T) {
	text, err := os.ReadFile("testdata/records-v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	mem := disktest.NewMem()
	l, _, err := log.Open(log.Options{FS: mem, Dir: "dead", Config: small().Log, After: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		rec, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Sync(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	s, _, err := Open(Options{FS: mem, Dir: "dead", Config: small()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fill(t, s, 7, 7)
	if st := s.Stats(); st.Kept != 7 || st.Held != 4 || st.Evicted != 3 {
		t.Errorf("%+v, want 7 kept, of which 3 made room", st)
	}
	if err := s.Append(t.Context(), entry("a", 3)); err != nil || s.Stats().Repeated != 1 {
		t.Errorf("what made room came back: %v", err)
	}
}
