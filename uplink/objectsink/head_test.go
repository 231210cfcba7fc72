package objectsink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/fence"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestClaimedNamesAreNotUsedTwice: a voided range comes again under another name.
func TestVoidedRangeComesAgain(t *testing.T) {
	far := newDirFar(t, "zstd")
	s := far.Connect(t, "a").(*Sink)
	open(t, s, 0)
	s.store = &failing{Bucket: s.store, creates: 1}
	if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 5)); !errors.Is(err, errCut) {
		t.Fatalf("send over a cut link: %v", err)
	}
	s.plant.freeNames = true // the planted fault: the name of the voided claim again
	if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 5)); err == nil {
		s.store = &failing{Bucket: s.store, creates: 1}
		_, _ = s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 6, 9))
		if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 6, 9)); err == nil {
			t.Fatal("the planted fault (names without the claim's number) was not found")
		}
	}
	s.plant.freeNames = false
	for range 2 {
		if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 9)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, s, 9)
	voids := 0
	for _, o := range objects(t, s.store, s.dir) {
		if _, ok := parseName(o.Name); ok && o.Bytes <= int64(len(s.void)) {
			voids++
		}
	}
	if voids == 0 {
		t.Error("no claim was voided")
	}
	if n := len(far.Held(t, uplinktest.Stream())); n != 9 {
		t.Errorf("%d records, want 9", n)
	}
}

// failing loses so many creates.
type failing struct {
	bucket.Bucket
	creates int
}

func (f *failing) Create(ctx context.Context, name string, body []byte) error {
	if f.creates--; f.creates >= 0 {
		return errCut
	}
	return f.Bucket.Create(ctx, name, body)
}

func open(t *testing.T, s *Sink, want uint64) {
	t.Helper()
	p, err := s.Open(t.Context(), uplinktest.Stream(), one, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Seq != want {
		t.Fatalf("run ends at %d, want %d", p.Seq, want)
	}
}

// TestRule17_HeadIsGone: the run is taken from the list, and ends where it is broken.
func TestRule17_HeadIsGone(t *testing.T) {
	far := newDirFar(t, "zstd")
	s := far.Connect(t, "a").(*Sink)
	open(t, s, 0)
	for first := uint64(1); first < 30; first += 3 {
		if _, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, first, first+2)); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(prefix string) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(far.config.Directory, streamDir(uplinktest.Stream()), prefix))
		if err != nil || len(found) != 1 {
			t.Fatalf("remove %s: %v, %v", prefix, found, err)
		}
		if err := os.Remove(found[0]); err != nil {
			t.Fatal(err)
		}
	}
	remove("dt=*/hr=*/*-00000000000000000001-*") // consumed
	remove("dt=*/hr=*/*-00000000000000000022-*") // lost
	open(t, s, 30)                               // the head knows
	remove(headName)
	wrong := far.Connect(t, "a").(*Sink)
	wrong.plant.highest = true
	if h, err := wrong.rebuildOf(t); err != nil || h.Seq != 30 {
		t.Fatalf("the planted fault gives %d, %v", h.Seq, err)
	}
	open(t, far.Connect(t, "a").(*Sink), 21)
}

func (s *Sink) rebuildOf(t *testing.T) (head, error) {
	s.opening.Stream, s.dir = uplinktest.Stream(), streamDir(uplinktest.Stream())
	return s.rebuild(t.Context())
}

func TestForeignHeadIsLeftAlone(t *testing.T) {
	for name, text := range map[string]string{"garbage": "<html>200 OK</html>", "empty": "", "newer": `{"version":2,"stream":"gw-1/p-1/out"}`,
		"other stream": `{"version":1,"stream":"a/b/c","incarnation":"1.0"}`,
		"claim leads elsewhere": `{"version":1,"stream":"gw-1/p-1/out","incarnation":"1.0","opened":1,"generation":1,"chain":"0000000000000000",` +
			`"claim":{"generation":1,"first":1,"last":2,"chain":"0000000000000000","name":"../../../x"}}`} {
		t.Run(name, func(t *testing.T) {
			far := newDirFar(t, "zstd")
			path := filepath.Join(far.config.Directory, streamDir(uplinktest.Stream()), headName)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
			if _, err := far.Connect(t, "a").Open(t.Context(), uplinktest.Stream(), one, 1); !errors.Is(err, ErrForeign) {
				t.Fatalf("open: %v, want ErrForeign", err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != text {
				t.Fatalf("the head was changed: %q, %v", b, err)
			}
		})
	}
}

func FuzzDecodeHead(f *testing.F) {
	h := head{State: fence.State{Incarnation: one, Board: "a", Opened: 1, Generation: 1, Seq: 4}, Claims: 7, Claim: &claim{Generation: 1, First: 5, Last: 6}}
	h.Claim.Name = objectName(h.Claim, 0, 7, ".jsonl")
	b, err := h.encode(uplinktest.Stream())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHead(b, uplinktest.Stream())
		if err != nil {
			return
		}
		again, err := h.encode(uplinktest.Stream())
		if err != nil {
			t.Fatal(err)
		}
		if g, err := decodeHead(again, uplinktest.Stream()); err != nil || g.Seq != h.Seq || (g.Claim == nil) != (h.Claim == nil) {
			t.Fatalf("%+v became %+v, %v", h, g, err)
		}
	})
}
