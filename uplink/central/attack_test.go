package central

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// What whoever may write to the store can do, but for destroying what is there: nothing is taken for what it is not, memory stays bounded, and the error says what to do.

var mallory = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))

// allocated is how many bytes f asked for in all, which is more than it ever held.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb is a zstd stream of n bytes whose frames do not say their size.
func bomb(c *Codec, n int64) []byte {
	one := c.enc.EncodeAll(make([]byte, 8<<20), nil)
	return bytes.Repeat(one, int(n>>23))
}

// signedBy is a manifest object over a body as it is.
func signedBy(key ed25519.PrivateKey, packed []byte) ([]byte, SHA) {
	b := append([]byte(manifestMagic), manifestVersion)
	b = append(b, key.Public().(ed25519.PublicKey)...)
	b = append(b, ed25519.Sign(key, append([]byte(manifestContext), packed...))...)
	b = append(b, packed...)
	return b, sha256.Sum256(b)
}

// plantHead puts a manifest and a head of a pipeline that names it.
func (w *world) plantHead(id UUID, manifest []byte, h Head) {
	w.t.Helper()
	sha := SHA(sha256.Sum256(manifest))
	h.Version, h.Manifest = headVersion, sha.String()
	body, err := h.encode()
	if err == nil {
		err = w.bucket.Put(w.t.Context(), w.up.names.Of(KindManifest, sha), manifest)
	}
	if err == nil {
		err = w.bucket.Put(w.t.Context(), w.up.names.Head(id), body)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) upload() {
	w.t.Helper()
	w.checkpoint(10)
	for range 3 { // one that is given up is followed by a base
		if w.confirmed() == w.id {
			return
		}
		if _, err := w.cut(); err != nil {
			w.t.Fatal(err)
		}
		if err := w.drive(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestBombsAreRefused: objects that unpack to much more than they may, and objects that are larger than what is asked for.
func TestBombsAreRefused(t *testing.T) {
	codec := must(NewCodec())
	const most = 300 << 20
	packed := bomb(codec, 2<<30)
	t.Logf("%d bytes that unpack to 2 GiB", len(packed))
	piece := append(append([]byte(pieceMagic), pieceVersion, 0), make([]byte, 16)...)
	piece = append(piece, packed...)
	manifest, _ := signedBy(testKey, packed)
	n := allocated(func() {
		if _, err := codec.open(piece, Ref{SHA: sha256.Sum256(piece), Bytes: uint64(len(piece)), Size: 2 << 30}, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("piece: %v", err)
		}
		if _, _, err := signed(codec, manifest, trusted(), &planted{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("manifest: %v", err)
		}
	})
	if n > most {
		t.Errorf("%d bytes were asked for", n)
	}

	w := uploaded(t, 2)
	object := w.up.names.Of(KindObject, w.pipe.rec.last().Plan.SHA)
	for _, name := range []string{object, w.up.names.Of(KindManifest, w.pipe.rec.LastSHA), w.up.names.Head(testID)} {
		b := w.bucket.Clone()
		b.Change(name, func([]byte) []byte { return make([]byte, 100<<20) })
		n := allocated(func() {
			f := &Fetcher{Gateway: testGateway, Bucket: b, Trust: trusted()}
			got, err := f.Fetch(t.Context(), testID, newSpool())
			switch {
			case name == object && (!errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), bucket.ErrTooLarge.Error())):
				t.Errorf("%s: %v", name, err)
			case name != object && (err != nil || got.PassedOver == nil || !errors.Is(got.PassedOver[0].Err, bucket.ErrTooLarge)):
				t.Errorf("%s: %v, %v", name, got, err)
			}
		})
		if n > 50<<20 {
			t.Errorf("%s: %d bytes were asked for", name, n)
		}
	}
}

// TestHeadSetBack: a head that names an older upload is fetched, and told, as long as the newer ones are there; --serial refuses it; the device itself sees it.
func TestHeadSetBack(t *testing.T) {
	w := uploaded(t, 3)
	old, _, err := w.bucket.Get(t.Context(), w.up.names.Head(testID))
	if err != nil {
		t.Fatal(err)
	}
	w.upload()
	w.bucket.Change(w.up.names.Head(testID), func([]byte) []byte { return old })
	f := &Fetcher{Gateway: testGateway, Bucket: w.bucket.Clone(), Trust: trusted()}
	got, err := f.Fetch(t.Context(), testID, newSpool())
	if err != nil || got.Manifest.Serial != 3 || len(got.Newer) != 1 || got.Newer[0].Serial != 4 || !strings.Contains(got.Newer[0].String(), "set the head back") {
		t.Fatalf("%+v, %v", got, err)
	}
	f.Least = 4
	if got, err = f.Fetch(t.Context(), testID, newSpool()); err != nil || got.Manifest.Serial != 4 || len(got.PassedOver) == 0 || !errors.Is(got.PassedOver[0].Err, ErrOld) {
		t.Fatalf("%+v, %v", got, err)
	}
	f.Least = 5
	if _, err = f.Fetch(t.Context(), testID, newSpool()); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), ErrOld.Error()) {
		t.Fatal(err)
	}
	w.upload()
	if id, err := w.check(w.bucket.Clone(), w.id); err != nil || id != w.id {
		t.Fatalf("the device goes on: %d, %v", id, err)
	}
}

// TestSwapped: what is of another pipeline, gateway or upload is not taken in the place of what was asked for.
func TestSwapped(t *testing.T) {
	w := uploaded(t, 2)
	foreign := func(change func(*Manifest)) []byte {
		m := *w.pipe.rec.last()
		change(&m)
		b, _, err := m.encode(w.up.codec, testKey) // the same key, as of another pipeline of this device
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, change := range map[string]func(*Manifest){
		"another pipeline's":                  func(m *Manifest) { m.UUID[3]++ },
		"another gateway's":                   func(m *Manifest) { m.Gateway = "../gw/1" },
		"with a name for a terminal":          func(m *Manifest) { m.Name = "p\x1b[2J" },
		"of an incarnation that there is not": func(m *Manifest) { m.Major = math.MaxUint32 },
		"of a number that there is not":       func(m *Manifest) { m.Serial = math.MaxUint64 },
		"with an index that is not there":     func(m *Manifest) { m.Index, m.Indexed = SHA{9}, 1 },
		"with an object of 1 TiB":             func(m *Manifest) { m.Plan.Bytes = 1 << 40 },
		"with an object that is another": func(m *Manifest) {
			m.Plan, m.Previous = m.Frames[0].Refs[0], SHA{}
		},
	} {
		v := &world{t: t, bucket: w.bucket.Clone(), up: w.up}
		v.plantHead(testID, foreign(change), headOf(w.pipe.rec.last(), SHA{}))
		got, err := (&Fetcher{Gateway: testGateway, Bucket: v.bucket, Trust: trusted()}).Fetch(t.Context(), testID, newSpool())
		if err != nil || len(got.PassedOver) == 0 || got.SHA == SHA(sha256.Sum256(foreign(change))) || got.Manifest.Gateway != testGateway {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		t.Logf("%s: %v", name, got.PassedOver[0])
	}
}

// TestIndexesThatNeverEnd: a chain of indexes that is longer than the manifest says, and one that says that it is as long.
func TestIndexesThatNeverEnd(t *testing.T) {
	w := uploaded(t, 1)
	before := SHA{}
	for range framesMax + 10 {
		x := index{Frames: []Frame{{Serial: 1, Refs: []Ref{{Bytes: 1}}}}}
		if before != (SHA{}) {
			x.Before = before[:]
		}
		b, sha, err := x.encode(Upload{byte(len(x.Before))})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.bucket.Put(t.Context(), w.up.names.Of(KindIndex, sha), b); err != nil {
			t.Fatal(err)
		}
		before = sha
	}
	m := *w.pipe.rec.last()
	m.Index = before
	for _, says := range []uint64{1, framesMax, framesMax + 1} {
		m.Indexed = says
		b, _, err := m.encode(w.up.codec, testKey)
		if err != nil {
			t.Fatal(err)
		}
		v := &world{t: t, bucket: w.bucket.Clone(), up: w.up}
		v.plantHead(testID, b, headOf(&m, SHA{}))
		counted := v.bucket.Requests()
		got, err := (&Fetcher{Gateway: testGateway, Bucket: v.bucket, Trust: trusted()}).Fetch(t.Context(), testID, newSpool())
		if err != nil || len(got.PassedOver) == 0 || v.bucket.Requests()-counted > framesMax+50 {
			t.Errorf("%d: %+v, %v, %d requests", says, got, err, v.bucket.Requests())
		}
	}
	if err := w.up.markIndexes(t.Context(), marked{}, before); !errors.Is(err, ErrDamaged) {
		t.Errorf("the collection follows it: %v", err)
	}
}

// TestHeadOfAForger: a head that no device has written is replaced by the device whose it is, and its numbers are not counted on from.
func TestHeadOfAForger(t *testing.T) {
	for _, h := range []Head{
		{Serial: math.MaxUint64, Incarnation: "1.0"},
		{Serial: 1 << 62, Incarnation: "1.0"},
		{Serial: 1 << 61, Incarnation: "1.0"},
		{Serial: 5, Incarnation: "4294967295.0"},
		{Serial: 5, Incarnation: "1.0; and more"},
	} {
		w := uploaded(t, 2)
		b, _ := signedBy(mallory, []byte("anything"))
		w.plantHead(testID, b, h)
		w.upload()
		id, err := w.check(w.bucket.Clone(), w.id)
		if m := w.pipe.rec.last(); err != nil || id != w.id || m.Serial > 10 {
			t.Errorf("%+v: %d, %v; upload %d", h, id, err, m.Serial)
		}
	}
}

// TestHeadOfAnEqualTwin: a device of the same incarnation has moved the head; this one gives its upload up and goes on above it with a base.
func TestHeadOfAnEqualTwin(t *testing.T) {
	w := uploaded(t, 2)
	m := *w.pipe.rec.last()
	m.Serial, m.Checkpoint = 40, 40
	b, _, err := m.encode(w.up.codec, testKey)
	if err != nil {
		t.Fatal(err)
	}
	w.plantHead(testID, b, headOf(&m, SHA{}))
	w.upload()
	if id, err := w.check(w.bucket.Clone(), w.id); err != nil || id != w.id || w.pipe.rec.last().Serial <= 40 || w.rebases != 2 {
		t.Fatalf("%d, %v, upload %d, %d bases", id, err, w.pipe.rec.last().Serial, w.rebases)
	}
}

// TestClaimOfAForger: the highest major fences nobody, is not counted on from, and says what to remove.
func TestClaimOfAForger(t *testing.T) {
	for _, claim := range []string{
		`{"version":1,"major":4294967295,"board":"x","claimed_ms":1,"by":"y"}`,
		`{"version":1,"major":2147483649,"board":"x","claimed_ms":1,"by":"y"}`,
		`{"version":1,"major":2,"board":"\u001b[2Jx","claimed_ms":1,"by":"y"}`,
		`{"version":1,"major":-1,"board":"x"}`, `{"version":1,"major":4294967296,"board":"x"}`, `[]`, ``, strings.Repeat(" ", 1<<20),
	} {
		b := &buckettest.Memory{}
		if err := b.Put(t.Context(), NamesOf("g").Claim(), []byte(claim)); err != nil {
			t.Fatal(err)
		}
		_, held := HoldClaim(t.Context(), b, "g", "board", "", 1, 0)
		_, taken := TakeClaim(t.Context(), b, "g", "board", "", 2, 0)
		for _, err := range []error{held, taken} {
			if err == nil || errors.Is(err, ErrFenced) {
				t.Errorf("%.80s: %v", claim, err)
			}
		}
		t.Log(held)
		if after, _, err := b.Get(t.Context(), NamesOf("g").Claim()); err != nil || string(after) != claim {
			t.Errorf("%.80s: it became %s", claim, after)
		}
	}
	b := &buckettest.Memory{}
	if _, err := TakeClaim(t.Context(), b, "g", "board", "", majorMax, 0); err != nil {
		t.Fatal(err)
	}
	if c, err := TakeClaim(t.Context(), b, "g", "board", "", 2, 0); !errors.Is(err, ErrClaim) {
		t.Fatalf("%+v, %v: a claim that falls", c, err)
	}
	if c, err := TakeClaim(t.Context(), &buckettest.Memory{}, "g", "board", "", 0, 0); err != nil || c.Major != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
}

// TestPipelineThatLeft: what is wrong with the uploads of a pipeline that is not in the config keeps the store from being collected, and costs nothing else. Once its head is removed, its pieces go.
func TestPipelineThatLeft(t *testing.T) {
	gone := UUID{66}
	for name, harm := range map[string]func(w *world){
		"head of rubbish": func(w *world) { w.bucket.Put(context.Background(), w.up.names.Head(gone), []byte("rubbish")) },
		"manifest gone": func(w *world) {
			w.plantHead(gone, []byte("x"), Head{Serial: 1, Incarnation: "1.0"})
			w.bucket.Change(w.up.names.Of(KindManifest, Sum([]byte("x"))), func([]byte) []byte { return nil })
		},
		"object gone": func(w *world) {
			m := *w.pipe.rec.last()
			m.UUID, m.Plan, m.Frames, m.Previous = gone, Ref{SHA: SHA{1}, Bytes: 5, Size: 5}, nil, SHA{}
			b, _, err := m.encode(w.up.codec, mallory)
			if err != nil {
				t.Fatal(err)
			}
			w.plantHead(gone, b, headOf(&m, SHA{}))
		},
		"a bomb": func(w *world) {
			b, _ := signedBy(mallory, bomb(w.up.codec, 1<<30))
			w.plantHead(gone, b, Head{Serial: 1, Incarnation: "1.0"})
		},
	} {
		w := uploaded(t, 1)
		stray := w.up.names.Of(KindObject, Sum([]byte("stray")))
		if err := w.bucket.Put(t.Context(), stray, []byte("stray")); err != nil {
			t.Fatal(err)
		}
		harm(w)
		for range 4 {
			w.bucket.Advance(graceMs + 1)
			w.upload()
		}
		if w.up.Collected() != 0 || w.rebases != 1 {
			t.Errorf("%s: %d collected, %d bases", name, w.up.Collected(), w.rebases)
		}
		err := w.up.collect(t.Context())
		if err == nil || !strings.Contains(err.Error(), "weir central") {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
		if err := Remove(t.Context(), w.bucket, testGateway, gone); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			w.bucket.Advance(graceMs + 1)
			w.upload()
		}
		if fmt.Sprint(w.bucket.Names(stray)) != "[]" || w.rebases != 1 {
			t.Errorf("%s: %v stays, %d bases", name, w.bucket.Names(stray), w.rebases)
		}
		if id, err := w.check(w.bucket.Clone(), w.id); err != nil || id != w.id {
			t.Errorf("%s: %d, %v", name, id, err)
		}
	}
}
