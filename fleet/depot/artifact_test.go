package depot

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

func TestMain(m *testing.M) {
	uploadWait = time.Microsecond
	os.Exit(m.Run())
}

// aProgram has n bytes, of which no two pieces are alike.
func aProgram(t *testing.T, n int) ([]byte, *document.Artifact) {
	t.Helper()
	b, source := make([]byte, n), rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(source.Uint32())
	}
	a, err := Cut(bytes.NewReader(b), document.ChunkBytesMin)
	if err != nil {
		t.Fatal(err)
	}
	return b, &a
}

// TestUploadGoesOn: after a cut at any request, the next upload sends what is missing, and no more.
func TestUploadGoesOn(t *testing.T) {
	p := newPlant(t)
	b, a := aProgram(t, 20*document.ChunkBytesMin+17)
	ctx, cancel := context.WithCancel(t.Context())
	p.store.Fault = func(r buckettest.Request) buckettest.Fault {
		if r.N == 9 {
			cancel()
		}
		if r.N > 9 {
			return buckettest.Lost
		}
		return buckettest.None
	}
	u, err := p.Upload(ctx, bytes.NewReader(b), a, false, nil)
	if err == nil || u.Done == 0 || u.Done >= u.Pieces {
		t.Fatalf("%+v, %v", u, err)
	}
	there := len(p.store.Names(Prefix + "chunk/"))
	p.store.Fault = func(r buckettest.Request) buckettest.Fault { // each second request of a bad link
		if r.Verb == "put" && r.N%2 == 0 {
			return buckettest.Lost
		}
		return buckettest.None
	}
	calls := 0
	for range 20 { // a piece that was lost six times ends it
		u, err = p.Upload(t.Context(), bytes.NewReader(b), a, false, func(Upload) { calls++ })
		if err == nil || !errors.Is(err, buckettest.ErrCut) {
			break
		}
	}
	if err != nil || u.There != there || u.Done != 21 || u.Pieces != 21 || calls != 21-there || u.Bytes > int64(len(b)) {
		t.Fatalf("%+v of %d there, told %d times: %v", u, there, calls, err)
	}
	p.store.Fault = nil
	if err := p.Verify(t.Context(), a, nil); err != nil {
		t.Error(err)
	}
	if u, err = p.Upload(t.Context(), bytes.NewReader(b), a, false, nil); err != nil || u.There != 21 || u.Bytes != 0 {
		t.Errorf("a repeat sends again: %+v, %v", u, err)
	}
}

// TestPiecesThatWereExchanged: a piece that lies there with another size is sent again; one of the same size is found by Verify, and sent with again.
func TestPiecesThatWereExchanged(t *testing.T) {
	p := newPlant(t)
	b, a := aProgram(t, 3*document.ChunkBytesMin)
	if _, err := p.Upload(t.Context(), bytes.NewReader(b), a, false, nil); err != nil {
		t.Fatal(err)
	}
	p.store.Change(Chunk(a.Chunks[0]), func(b []byte) []byte { return b[:9] })
	p.store.Change(Chunk(a.Chunks[1]), func(b []byte) []byte { b[5] ^= 1; return b })
	if u, err := p.Upload(t.Context(), bytes.NewReader(b), a, false, nil); err != nil || u.There != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	if err := p.Verify(t.Context(), a, nil); !errors.Is(err, ErrOther) {
		t.Errorf("%v", err)
	}
	if u, err := p.Upload(t.Context(), bytes.NewReader(b), a, true, nil); err != nil || u.There != 0 || u.Done != 3 {
		t.Errorf("%+v, %v", u, err)
	}
	if err := p.Verify(t.Context(), a, nil); err != nil {
		t.Error(err)
	}
	swapped := *a
	swapped.Chunks = []string{a.Chunks[1], a.Chunks[0], a.Chunks[2]}
	if err := p.Verify(t.Context(), &swapped, nil); !errors.Is(err, ErrOther) {
		t.Errorf("pieces in another order: %v", err)
	}
	b[0] ^= 1
	if _, err := p.Upload(t.Context(), bytes.NewReader(b), a, true, nil); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("%v", err)
	}
}

func TestCut(t *testing.T) {
	alike, err := Cut(bytes.NewReader(make([]byte, 4*document.ChunkBytesMin)), document.ChunkBytesMin)
	if err != nil || len(alike.Chunks) != 4 {
		t.Fatalf("%+v, %v", alike, err)
	}
	p := newPlant(t)
	if u, err := p.Upload(t.Context(), bytes.NewReader(make([]byte, alike.Bytes)), &alike, false, nil); err != nil || u.Pieces != 1 || u.Bytes != document.ChunkBytesMin {
		t.Errorf("%+v, %v", u, err)
	}
	for _, size := range []int64{0, 1, document.ChunkBytesMin - 1, document.ChunkBytesMax + 1} {
		if _, err := Cut(strings.NewReader("x"), size); err == nil {
			t.Errorf("pieces of %d bytes", size)
		}
	}
	if _, err := Cut(strings.NewReader(""), document.ChunkBytesMin); err == nil {
		t.Error("an empty program")
	}
}
