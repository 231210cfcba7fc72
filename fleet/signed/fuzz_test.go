package signed

import (
	"bytes"
	"testing"
)

func FuzzParse(f *testing.F) {
	f.Add(sealed(f, TypeRollout, []byte(`{"a":1}`), "d1", "d2"))
	f.Add(sealed(f, TypeState, nil))
	f.Add([]byte(`{"weir":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(e.Bytes())
		if err != nil || !bytes.Equal(again.Bytes(), e.Bytes()) {
			t.Errorf("written again: %v", err)
		}
	})
}

// FuzzRoot signs whatever payload there is: nothing else than a root with the rules of one is trusted.
func FuzzRoot(f *testing.F) {
	one, err := firstRoot().Encode()
	if err != nil {
		f.Fatal(err)
	}
	two := firstRoot()
	two.Version, two.Roles.Deploy.Floor = 2, 9
	next, err := two.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(next)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > BytesMax/2 {
			return
		}
		b := sealed(t, TypeRoot, payload, "r1", "r2")
		if tr, err := NewTrust(b); err == nil {
			if err := tr.Root().check(); err != nil {
				t.Errorf("trusted, though %v", err)
			}
		}
		tr := trust(t)
		if err := tr.Advance(b); err == nil && (tr.Version() != 2 || tr.Fleet() != "plant") {
			t.Errorf("root %d of %s follows root 1", tr.Version(), tr.Fleet())
		}
	})
}

// FuzzVerify: no envelope that fuzzing finds verifies, but the one that was signed.
func FuzzVerify(f *testing.F) {
	payload := []byte(`{"a":1}`)
	f.Add(sealed(f, TypeRollout, payload, "d1", "d2"))
	f.Add(sealed(f, TypeRollout, payload, "d1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range []string{TypeRollout, TypeCommands, TypeRelease} {
			if got, err := trust(t).Verify(b, typ); err == nil && (typ != TypeRollout || !bytes.Equal(got, payload)) {
				t.Errorf("as %s: %q", typ, got)
			}
		}
	})
}
