package central

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// uploaded is a world with so many uploads. Its clock stands, so that nothing is collected.
func uploaded(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t, 5)
	for range n {
		w.checkpoint(20)
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		if err := w.drive(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestDamageFallsBack: whatever object of the newest upload is torn, flipped or gone, the one before is fetched, and what is lost is told.
func TestDamageFallsBack(t *testing.T) {
	harms := map[string]func([]byte) []byte{
		"gone":       func([]byte) []byte { return nil },
		"torn":       func(b []byte) []byte { return b[:len(b)/2] },
		"bit":        func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"of 0 bytes": func([]byte) []byte { return []byte{} },
	}
	w := uploaded(t, 4)
	last := w.pipe.rec.last()
	own := []string{w.up.names.Of(KindManifest, w.pipe.rec.LastSHA)}
	for _, f := range last.Frames[len(last.Frames)-1:] {
		for _, r := range f.Refs {
			own = append(own, w.up.names.Of(KindObject, r.SHA))
		}
	}
	for what, harm := range harms {
		for _, name := range own {
			b := w.bucket.Clone()
			b.Change(name, harm)
			got, state, err := w.fetch(b, planted{})
			if err != nil {
				t.Fatalf("%s is %s: %v", name, what, err)
			}
			if got.Manifest.Checkpoint != 3 || len(got.PassedOver) != 1 || len(state) != len(w.states[3]) {
				t.Fatalf("%s is %s: checkpoint %d, passed over %v", name, what, got.Manifest.Checkpoint, got.PassedOver)
			}
			if says := got.PassedOver[0].String(); !strings.Contains(says, "missing") && !strings.Contains(says, "damaged") {
				t.Errorf("%s is %s: it says %q", name, what, says)
			} else {
				t.Logf("%s: %s", what, says)
			}
		}
		b := w.bucket.Clone()
		b.Change(w.up.names.Head(testID), harm)
		if got, _, err := w.fetch(b, planted{}); err != nil || got.Manifest.Checkpoint != 4 {
			t.Fatalf("the head is %s: %v", what, err)
		}
		// The base: no upload is whole any more.
		b = w.bucket.Clone()
		b.Change(w.up.names.Of(KindObject, last.Frames[0].Refs[0].SHA), harm)
		if _, _, err := w.fetch(b, planted{}); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "upload 4") || !strings.Contains(err.Error(), "upload 1") {
			t.Fatalf("the base is %s: %v", what, err)
		}
	}
}

// forgets has a store lose the last n writes that it answered, and uploads go on.
func forgets(t *testing.T, n int, plant planted) error {
	w := uploaded(t, 5)
	w.up.plant = plant
	w.bucket.Forget(n)
	if id, err := w.check(w.bucket.Clone(), 0); err != nil || id == 0 || n > 3 && id == 5 {
		return fmt.Errorf("checkpoint %d, %w", id, err)
	}
	w.checkpoint(10)
	for range 3 { // a delta that is given up, a base
		if _, err := w.cut(); err != nil {
			return err
		}
		if err := w.drive(); err != nil {
			return err
		}
		if _, err := w.check(w.bucket.Clone(), 0); err != nil {
			return err
		}
	}
	id, err := w.check(w.bucket.Clone(), w.id)
	if err == nil && id != w.id {
		err = fmt.Errorf("after another upload checkpoint %d of %d", id, w.id)
	}
	return err
}

// TestStoreForgets: what is left can be fetched, the uploader finds it out, and does not go on from what is not there.
func TestStoreForgets(t *testing.T) {
	found := false
	for n := 1; n <= 12; n++ {
		if err := forgets(t, n, planted{}); err != nil {
			t.Fatalf("%d writes forgotten: %v", n, err)
		}
		found = found || forgets(t, n, planted{trusting: true}) != nil
	}
	if !found {
		t.Fatal("the planted fault (notes are trusted against the store) was not found")
	}
}

// TestWhoIsTrusted: a manifest counts only with a signature by a key that is trusted, for the gateway and pipeline that were asked for.
func TestWhoIsTrusted(t *testing.T) {
	w := uploaded(t, 1)
	forge := func(change func(b []byte) []byte) *Fetcher {
		b := w.bucket.Clone()
		name := w.up.names.Of(KindManifest, w.pipe.rec.LastSHA)
		body, _, err := b.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		forged := change(body)
		sum := must(forged, nil)
		sha := Sum(sum)
		if err := b.Put(t.Context(), w.up.names.Of(KindManifest, sha), forged); err != nil {
			t.Fatal(err)
		}
		b.Change(name, func([]byte) []byte { return nil })
		h := headOf(w.pipe.rec.last(), sha)
		body, err = h.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), w.up.names.Head(testID), body); err != nil {
			t.Fatal(err)
		}
		return &Fetcher{Gateway: testGateway, Bucket: b, Trust: trusted()}
	}
	mallory := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
	resigned := func(key ed25519.PrivateKey, change func(m *Manifest)) func([]byte) []byte {
		return func([]byte) []byte {
			m := *w.pipe.rec.last()
			change(&m)
			b, _, err := m.encode(w.up.codec, key)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   error
	}{
		{"another key", resigned(mallory, func(*Manifest) {}), ErrSignature},
		{"the signature of zeros", func(b []byte) []byte { clear(b[5+32 : 5+32+64]); return b }, ErrSignature},
		{"the content changed", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, ErrSignature},
		{"of another gateway", resigned(testKey, func(m *Manifest) { m.Gateway = "gw-2" }), ErrForeign},
		{"of another pipeline", resigned(testKey, func(m *Manifest) { m.UUID[0]++ }), ErrForeign},
		{"of a newer version", func(b []byte) []byte { b[4] = 2; return b }, ErrVersion},
		{"more frames than there are", resigned(testKey, func(m *Manifest) { m.Indexed, m.Index = 3, SHA{1} }), ErrNothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := forge(c.change)
			_, err := f.Fetch(t.Context(), testID, newSpool())
			if err == nil || !errors.Is(err, c.want) && !strings.Contains(err.Error(), c.want.Error()) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			t.Log(err)
			if c.want == ErrSignature {
				f.plant.unsigned = true
				if got, err := f.Fetch(t.Context(), testID, newSpool()); err == nil && got == nil {
					t.Fatal("neither")
				} else if c.name == "another key" && err != nil {
					t.Fatalf("the planted fault (unsigned accepted) does nothing: %v", err)
				}
			}
		})
	}
	f := &Fetcher{Gateway: testGateway, Bucket: w.bucket.Clone(), Trust: Trust{mallory.Public().(ed25519.PublicKey)}}
	if _, err := f.Fetch(t.Context(), testID, newSpool()); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), ErrSignature.Error()) {
		t.Fatalf("a key that is not trusted: %v", err)
	}
}

// TestFetchGoesOn: what was fetched before the link broke is not read again.
func TestFetchGoesOn(t *testing.T) {
	w := uploaded(t, 6)
	scratch := newSpool()
	b := w.bucket.Clone()
	for n := 1; ; n++ {
		b.Kill(b.Requests()+n, false)
		f := &Fetcher{Gateway: testGateway, Bucket: b, Trust: trusted()}
		_, err := f.Fetch(t.Context(), testID, scratch)
		b.Revive()
		if err == nil {
			pieces := 0
			b.Log = func(r buckettest.Request) {
				if strings.Contains(r.Name, "/object/") {
					pieces++
				}
			}
			got, err := (&Fetcher{Gateway: testGateway, Bucket: b, Trust: trusted()}).Fetch(t.Context(), testID, scratch)
			if err != nil || got.Manifest.Checkpoint != 6 || pieces > 0 {
				t.Fatalf("%v, %d pieces were read again", err, pieces)
			}
			return
		}
		if errors.Is(err, ErrNothing) {
			t.Fatalf("a link that breaks is taken for damage: %v", err)
		}
	}
}

func TestNamesAreParsed(t *testing.T) {
	for _, gateway := range []string{"gw-1", "..", "a/b", "_é", "~", "claim"} {
		n := NamesOf(gateway)
		for _, name := range []string{n.Claim(), n.Head(testID), n.Of(KindManifest, SHA{1}), n.Of(KindIndex, SHA{2}), n.Of(KindObject, SHA{255})} {
			p, err := Parse(name)
			if err != nil || p.Gateway != gateway || strings.Count(name, "/") > 2 {
				t.Fatalf("%s: %+v, %v", name, p, err)
			}
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(NamesOf("a/b").Head(testID))
	f.Add(NamesOf("gw").Of(KindObject, SHA{3}))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		n := NamesOf(p.Gateway)
		again := map[Kind]string{KindClaim: n.Claim(), KindHead: n.Head(p.Pipeline), KindManifest: n.Of(KindManifest, p.SHA), KindIndex: n.Of(KindIndex, p.SHA), KindObject: n.Of(KindObject, p.SHA)}[p.Kind]
		if again != s {
			t.Fatalf("%q became %q", s, again)
		}
	})
}

// FuzzObjects: no object makes a reader panic, or take much memory.
func FuzzObjects(f *testing.F) {
	codec := must(NewCodec())
	piece, _, err := codec.pack(Upload{1}, []byte{0x84, 0, 0x41, 1, 0x40, 0x41, 2}, nil)
	if err != nil {
		f.Fatal(err)
	}
	x := index{Frames: []Frame{{Serial: 1, Refs: []Ref{{Bytes: 1}}}}}
	indexed, _, err := x.encode(Upload{2})
	if err != nil {
		f.Fatal(err)
	}
	m := Manifest{Gateway: "g", Serial: 1, Sinks: []Sink{{UID: "s"}}, Frames: x.Frames}
	manifest, _, err := m.encode(codec, testKey)
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{piece, indexed, manifest, []byte(`{"version":1}`)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sha := Sum(b)
		if plain, err := codec.open(b, Ref{SHA: sha, Size: 7}, nil); err == nil {
			for err == nil && len(plain) > 0 {
				var e entry
				plain, err = e.read(plain)
			}
		}
		if x, err := decodeIndex(b, sha); err == nil {
			if _, _, err := x.encode(Upload{}); err != nil {
				t.Fatal(err)
			}
		}
		_, _, _ = signed(codec, b, nil, &planted{unsigned: true})
		_, _, _, _ = decodeHead(b)
		if r, rest, err := readResult(b); err == nil && !slices.Equal(appendResult(nil, &r), b[:len(b)-len(rest)]) {
			t.Fatalf("result of another form: %x", b)
		}
	})
}

var _ bucket.Bucket = (*bucket.Directory)(nil)
