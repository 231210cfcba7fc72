package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
)

func small() Config {
	c := Default()
	c.Log.SegmentBytes, c.Log.MaxBytes, c.Log.ReserveBytes, c.Log.Linger, c.Log.Compress = 8<<10, 1<<20, 0, 10*time.Second, false
	c.MaxBytes, c.MaxPayload = 32<<10, 600
	return c
}

func open(t testing.TB, mem *disktest.Mem) *Store {
	t.Helper()
	s, rec, err := Open(Options{FS: mem, Dir: "dead", Config: small(), Stamp: func() pipeline.Stamp { return pipeline.Stamp{Wall: 77} }})
	if err != nil || len(rec.Damaged) > 0 {
		t.Fatal(err, rec)
	}
	return s
}

func entry(stream string, seq uint64) *Entry {
	return &Entry{Stream: stream, Generation: 1, Seq: seq, Time: pipeline.NoTime, Reason: "no", Payload: fmt.Appendf(nil, "payload %d %s", seq, strings.Repeat("p", 100))}
}

func TestKeptOnceAcrossRestarts(t *testing.T) {
	mem := disktest.NewMem()
	s := open(t, mem)
	if err := s.Append(t.Context(), entry("a", 5), entry("a", 2), entry("b", 5), entry("a", 5)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem)
	defer s.Close()
	if err := s.Append(t.Context(), entry("a", 2), entry("a", 3)); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), 0, 100)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d entries, want 4: %v", len(all), err)
	}
	got, err := s.Show(t.Context(), all[2].ID)
	if err != nil || got.Stream != "b" || got.Seq != 5 || got.Wall != 77 || !bytes.Equal(got.Payload, entry("b", 5).Payload) {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := s.Show(t.Context(), 999); !errors.Is(err, ErrGone) {
		t.Fatalf("%v, want ErrGone", err)
	}
	if st := s.Stats(); st.Kept != 4 || st.Repeated != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestSequencedStreamAndCutPayload(t *testing.T) {
	s := open(t, disktest.NewMem())
	defer s.Close()
	for seq := uint64(1); seq <= 9; seq++ {
		if err := s.Append(t.Context(), entry("dead", seq)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.LastSeq("dead", 1); n != 9 {
		t.Fatalf("last is %d", n)
	}
	big := entry("dead", 10)
	big.Payload = bytes.Repeat([]byte("x"), 5000)
	if err := s.Append(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), 9, 10)
	if err != nil || len(all) != 1 || len(all[0].Payload) != 600 || all[0].Size != 5000 {
		t.Fatalf("%+v %v", all, err)
	}
}

// TestOldestMakeRoom: the cap holds, evicted entries are counted, and a repeat of one is still known after a restart.
func TestOldestMakeRoom(t *testing.T) {
	mem := disktest.NewMem()
	s := open(t, mem)
	for seq := uint64(1); seq <= 2000; seq++ {
		if err := s.Append(t.Context(), entry("a", seq)); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Log.LiveBytes; n > small().MaxBytes {
			t.Fatalf("%d bytes live, the cap is %d", n, small().MaxBytes)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem)
	defer s.Close()
	if err := s.Append(t.Context(), entry("a", 1)); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	all, err := s.List(t.Context(), 0, 5000)
	if err != nil || st.Kept != 2000 || st.Repeated != 1 || st.Evicted == 0 || all[len(all)-1].Seq != 2000 {
		t.Fatalf("%d entries, %+v, %v", len(all), st, err)
	}
}

// TestCrashStates: what Append acknowledged is there after every power cut; nothing is there twice.
func TestCrashStates(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &disktest.Crasher{Seed: seed, PerCall: 24}
	mem := disktest.NewMem()
	acked, evicted := uint64(0), false
	check := func(image *disktest.Mem) {
		s := open(t, image)
		defer s.Close()
		all, err := s.List(context.Background(), 0, 1<<20)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := 1; i < len(all); i++ {
			if all[i].Seq != all[i-1].Seq+1 {
				t.Fatalf("seed %d: %d after %d", seed, all[i].Seq, all[i-1].Seq)
			}
		}
		if n := uint64(len(all)); acked > 0 && (n == 0 || all[n-1].Seq < acked || !evicted && all[0].Seq != 1) {
			t.Fatalf("seed %d: %d entries, %d acknowledged", seed, n, acked)
		}
		if s.LastSeq("a", 1) < acked {
			t.Fatalf("seed %d: run ends at %d, %d acknowledged", seed, s.LastSeq("a", 1), acked)
		}
	}
	s := open(t, mem)
	defer s.Close()
	mem.OnOp(func(string) { evicted = evicted || s.log.First() > 1; c.Images(mem, acked, check) })
	for acked < 1500 && c.Distinct() < 2500 {
		for i := range uint64(5) {
			if err := s.Append(t.Context(), entry("a", acked+1+i)); err != nil {
				t.Fatal(err)
			}
		}
		acked += 5
	}
	mem.OnOp(nil)
	t.Logf("%d states", c.Distinct())
}

func FuzzRecord(f *testing.F) {
	f.Add(appendEntry(nil, entry("a", 3), 50))
	f.Add(appendMarks(nil, &marks{known: map[name]*ranges{{"a", 1}: {list: []span{{1, 3}, {7, 9}}}}, kept: 4, expired: 1, requeued: 2, gone: 3, goneNumber: 2, removed: []span{{5, 6}}}))
	f.Add(appendRemoved(nil, &removal{cause: causeExpired, ids: []span{{1, 9}}, number: 4, count: 3}))
	f.Add(appendRequeue(nil, &requeue{after: 7, ids: []span{{1, 2}, {9, 9}}}))
	f.Fuzz(func(t *testing.T, rec []byte) {
		r, err := decode(rec)
		if (err == nil) == (r == record{}) {
			t.Fatalf("%v %v", r, err)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
	})
}

func TestRecordCutAtEachByteOfItsHead(t *testing.T) {
	e := entry("a", 3)
	rec := appendEntry(nil, e, 1<<20)
	head := len(rec) - len(e.Payload)
	for n := range head {
		if _, err := decode(rec[:n]); err == nil {
			t.Errorf("cut at %d decodes", n)
		}
	}
	for i := range len(rec) * 8 {
		bad := bytes.Clone(rec)
		bad[i/8] ^= 1 << (i % 8)
		_, _ = decode(bad) // must not panic
	}
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ranges
		have := map[uint64]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			first := rapid.Uint64Range(1, 60).Draw(t, "first")
			last := first + rapid.Uint64Range(0, 5).Draw(t, "len")
			fresh := false
			for seq := first; seq <= last; seq++ {
				fresh = fresh || !have[seq]
				have[seq] = true
			}
			if r.add(first, last) != fresh {
				t.Fatalf("add %d..%d", first, last)
			}
		}
		for seq := uint64(1); seq < 70; seq++ {
			if r.has(seq, seq) != have[seq] {
				t.Fatalf("%d", seq)
			}
		}
		for i := 1; i < len(r.list); i++ {
			if r.list[i].first <= r.list[i-1].last+1 {
				t.Fatalf("spans touch: %v", r.list)
			}
		}
	})
}
