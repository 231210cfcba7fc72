package central

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// Each decoder by itself: no object makes it panic or take much memory, and what it takes is written the same again.

func FuzzManifest(f *testing.F) {
	codec := must(NewCodec())
	m := Manifest{Gateway: "g", Name: "p", Serial: 3, Major: 1, Plan: Ref{SHA: SHA{1}, Bytes: 5, Size: 6}, Sinks: []Sink{{UID: "s", Seq: 9, Confirmed: 4, Parts: []Part{{First: 5, Last: 9}}}},
		Frames: []Frame{{Serial: 1, Checkpoint: 2, Entries: 3, Refs: []Ref{{SHA: SHA{2}, Bytes: 1, Size: 2}}}}}
	body, err := encoding.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, body []byte) { // the content, which no mutation of the compressed form reaches
		b, _ := signedBy(testKey, codec.enc.EncodeAll(body, nil))
		m, _, err := signed(codec, b, trusted(), &planted{})
		if err != nil {
			return
		}
		again, sha, err := m.encode(codec, testKey)
		if err != nil || sha != SHA(sha256.Sum256(again)) {
			t.Fatal(err)
		}
		if _, _, err := signed(codec, again, trusted(), &planted{}); err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		if m.Serial == 0 || m.Serial > serialMax || m.Major > majorMax || !printable(m.Name) {
			t.Fatalf("%+v", m)
		}
		_ = checkRefs(m.refs())
	})
}

func FuzzIndex(f *testing.F) {
	x := index{Before: bytes.Repeat([]byte{1}, 32), Frames: []Frame{{Serial: 1, Refs: []Ref{{SHA: SHA{1}, Bytes: 2, Size: 3}}}}}
	body, err := encoding.Marshal(&x)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(append([]byte(indexMagic), indexVersion), make([]byte, 16)...)
		b = append(b, body...)
		x, err := decodeIndex(b, sha256.Sum256(b))
		if err != nil {
			return
		}
		again, sha, err := x.encode(Upload{})
		if err != nil {
			t.Fatal(err)
		}
		if y, err := decodeIndex(again, sha); err != nil || y.refs() != x.refs() {
			t.Fatalf("%+v became %+v, %v", x, y, err)
		}
	})
}

func FuzzHead(f *testing.F) {
	b, err := headOf(&Manifest{Serial: 7, Major: 2, Minor: 1}, SHA{3}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"manifest":"00","serial":18446744073709551615,"incarnation":"4294967295.0"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, sha, o, err := decodeHead(b)
		if err != nil {
			if sha != (SHA{}) || o != (Order{}) {
				t.Fatalf("%v, and yet %s %+v", err, sha, o)
			}
			return
		}
		if o.Serial == 0 || o.Serial > serialMax || o.Major > majorMax {
			t.Fatalf("%+v", o)
		}
		again, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, sha2, o2, err := decodeHead(again); err != nil || sha2 != sha || o2 != o {
			t.Fatalf("%+v became %+v, %v", o, o2, err)
		}
	})
}

func FuzzPiece(f *testing.F) {
	codec := must(NewCodec())
	e := entry{table: 1, key: []byte("k"), sub: []byte("s"), val: []byte("v")}
	f.Add(e.append(nil))
	f.Add(appendResult(nil, testResult(5)))
	f.Fuzz(func(t *testing.T, plain []byte) {
		b, ref, err := codec.pack(Upload{1}, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.open(b, ref, nil)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%x became %x, %v", plain, got, err)
		}
		var e entry
		if rest, err := e.read(plain); err == nil && !bytes.Equal(e.append(nil), plain[:len(plain)-len(rest)]) {
			t.Fatalf("entry of another form: %x", plain)
		}
		if r, rest, err := readResult(plain); err == nil && !bytes.Equal(appendResult(nil, &r), plain[:len(plain)-len(rest)]) {
			t.Fatalf("result of another form: %x", plain)
		}
	})
}
