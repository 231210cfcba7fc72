package signed

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"
)

// keyOf is a key that is always the same.
func keyOf(name string) KeySigner {
	seed := sha256.Sum256([]byte("weir test key " + name))
	return KeySigner(ed25519.NewKeyFromSeed(seed[:]))
}

func keysOf(names ...string) (keys []Signer) {
	for _, n := range names {
		keys = append(keys, keyOf(n))
	}
	return keys
}

func grant(threshold int, since uint64, names ...string) Grant {
	g := Grant{Threshold: threshold, Since: since}
	for _, n := range names {
		g.Keys = append(g.Keys, keyOf(n).ID())
	}
	return g
}

// rootOf makes a root document of the grants, with keys named as in them.
func rootOf(version uint64, root, release, deploy Grant, names ...string) *Root {
	r := &Root{Fleet: "plant", Version: version, CreatedMs: 1_780_000_000_000, Roles: Grants{root, release, deploy}}
	for _, n := range names {
		r.Keys = append(r.Keys, NewRootKey(keyOf(n).Public(), n))
	}
	return r
}

// firstRoot is root 1: two of three root keys, one release key, two of two deploy keys.
func firstRoot() *Root {
	return rootOf(1, grant(2, 1, "r1", "r2", "r3"), grant(1, 1, "rel"), grant(2, 1, "d1", "d2"), "r1", "r2", "r3", "rel", "d1", "d2")
}

// seal encodes and signs a root.
func seal(t testing.TB, r *Root, by ...string) []byte {
	t.Helper()
	payload, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return sealed(t, TypeRoot, payload, by...)
}

func sealed(t testing.TB, typ string, payload []byte, by ...string) []byte {
	t.Helper()
	e, err := Seal(t.Context(), typ, payload, keysOf(by...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e.Bytes()
}

func trust(t testing.TB) *Trust {
	t.Helper()
	tr, err := NewTrust(seal(t, firstRoot(), "r1", "r3"))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", prefix, i))
	}
	return list
}

// signBare signs the payload without format and type.
func signBare(key string, payload []byte) []byte {
	return ed25519.Sign(ed25519.PrivateKey(keyOf(key)), payload)
}
