package signed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// vectors are those of RFC 8032 §7.1, TEST 1 to 3: seed, public key, message, signature.
var vectors = [][4]string{
	{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
	{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
		"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
	{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
		"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRFC8032(t *testing.T) {
	for i, v := range vectors {
		key, err := ParsePrivate(FormatPrivate(ed25519.NewKeyFromSeed(unhex(t, v[0]))))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(KeySigner(key).Public(), unhex(t, v[1])) {
			t.Errorf("%d: public key %x", i+1, KeySigner(key).Public())
		}
		if sig := ed25519.Sign(key, unhex(t, v[2])); !bytes.Equal(sig, unhex(t, v[3])) {
			t.Errorf("%d: signature %x", i+1, sig)
		}
	}
}

// TestGolden: testdata was made without weir, with the keys of RFC 8032 and openssl pkeyutl. It must verify for ever, and signing it again gives the same bytes.
func TestGolden(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tr, err := NewTrust(read("root-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"root-1.json", "release.json", "rollout.json", "commands.json"} {
		b := read(name)
		e, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(e.Bytes(), b) {
			t.Errorf("%s: written again as %s", name, e.Bytes())
		}
		if name != "root-1.json" {
			if payload, err := tr.Verify(b, e.Type); err != nil || !bytes.Equal(payload, e.Payload) {
				t.Errorf("%s: %v", name, err)
			}
		}
		key := KeySigner(ed25519.NewKeyFromSeed(unhex(t, vectors[min(i, 2)][0])))
		again, err := Seal(t.Context(), e.Type, e.Payload, key)
		if err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Errorf("%s: signed again: %v\n%s", name, err, again.Bytes())
		}
	}
}
