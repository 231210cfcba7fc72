package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKeyFiles: the same bytes as crypto/x509 has, both ways.
func TestKeyFiles(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public := KeySigner(key).Public()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if theirs := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}); !bytes.Equal(FormatPrivate(key), theirs) {
		t.Errorf("private: %s, x509 has %s", FormatPrivate(key), theirs)
	}
	if der, err = x509.MarshalPKIXPublicKey(public); err != nil {
		t.Fatal(err)
	}
	if theirs := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}); !bytes.Equal(FormatPublic(public), theirs) {
		t.Errorf("public: %s, x509 has %s", FormatPublic(public), theirs)
	}
	if got, err := ParsePrivate(FormatPrivate(key)); err != nil || !got.Equal(key) {
		t.Errorf("private, read: %v", err)
	}
	for _, file := range []string{string(FormatPublic(public)), FormatLine(public), FormatLine(public) + "=\n"} {
		if got, err := ParsePublic([]byte(file)); err != nil || !got.Equal(public) {
			t.Errorf("public, read from %s: %v", file, err)
		}
	}
}

func TestKeyFilesRefused(t *testing.T) {
	key := ed25519.PrivateKey(keyOf("a"))
	public := keyOf("a").Public()
	block := func(typ string, b []byte) string { return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b})) }
	for _, c := range []struct{ file, want string }{
		{"", "no PEM block"}, {"secret", "no PEM block"}, {string(FormatPublic(public)), "it is a public key"}, {block("ENCRYPTED PRIVATE KEY", []byte{1}), "--sign-with"},
		{block("RSA PRIVATE KEY", []byte{1}), `want "PRIVATE KEY"`}, {block("PRIVATE KEY", []byte{0x30}), "another kind"}, {block("PRIVATE KEY", append(slices.Clone(privatePrefix), make([]byte, 33)...)), "another kind"},
	} {
		if _, err := ParsePrivate([]byte(c.file)); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("private %q: %v", c.file, err)
		}
	}
	for _, c := range []struct{ file, want string }{
		{"", "neither PEM"}, {string(FormatPrivate(key)), "it is a private key"}, {block("CERTIFICATE", []byte{1}), "another kind"}, {"ed25519:AAAA", "3 bytes"},
		{"ed25519:" + strings.Repeat("A", 43), "small order"}, {"ed25519:!", "43 characters"}, {block("PUBLIC KEY", append(slices.Clone(publicPrefix), 1)), "1 bytes"},
	} {
		if _, err := ParsePublic([]byte(c.file)); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("public %q: %v", c.file, err)
		}
	}
}

func TestKeyFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	if err := os.WriteFile(path, FormatPrivate(ed25519.PrivateKey(keyOf("a"))), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(path); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPrivate(path); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestSmallOrder works the points out: those whose order divides 8 on -x² + y² = 1 + d x² y² over the integers modulo 2^255 - 19 (RFC 8032 §5.1).
func TestSmallOrder(t *testing.T) {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	mod := func(x *big.Int) *big.Int { return x.Mod(x, p) }
	mul := func(a, b *big.Int) *big.Int { return mod(new(big.Int).Mul(a, b)) }
	inverse := func(x *big.Int) *big.Int { return new(big.Int).ModInverse(x, p) }
	one := big.NewInt(1)
	d := mul(big.NewInt(-121665), inverse(big.NewInt(121666)))
	// y of a point whose double has y = 0: x² = y², so 2x² = 1 + d x⁴ with the point's double (±sqrt(-1) ...): of order 8, d·z² + 2z - 1 = 0 for z = y².
	root := new(big.Int).ModSqrt(mod(new(big.Int).Add(one, d)), p)
	ys := []*big.Int{big.NewInt(0), one, new(big.Int).Sub(p, one)}
	for _, sign := range []int64{1, -1} {
		z := mul(mod(new(big.Int).Add(big.NewInt(-1), new(big.Int).Mul(big.NewInt(sign), root))), inverse(d))
		if y := new(big.Int).ModSqrt(z, p); y != nil {
			ys = append(ys, y, new(big.Int).Sub(p, y))
		}
	}
	var want []string
	for _, y := range ys {
		b := y.FillBytes(make([]byte, 32))
		slices.Reverse(b)
		want = append(want, hex.EncodeToString(b))
	}
	got := slices.Sorted(slices.Values(smallOrder))
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("listed %v\nworked out %v", got, want)
	}
	for _, text := range smallOrder {
		key, _ := hex.DecodeString(text)
		for _, sign := range []byte{0, 0x80} {
			key[31] = key[31]&0x7f | sign
			if err := CheckPublic(key); !errors.Is(err, ErrKey) {
				t.Errorf("%x: %v", key, err)
			}
		}
	}
	// What it is about: a signature that holds for every message, made without a secret.
	neutral, _ := hex.DecodeString(smallOrder[1])
	forged := append(slices.Clone(neutral), make([]byte, 32)...)
	if !ed25519.Verify(neutral, []byte("any message"), forged) {
		t.Error("the forgery does not hold: the test shows nothing")
	}
}

func TestOneWritingOfAKey(t *testing.T) {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	for i := range int64(19) { // y = i, written as p + i
		b := new(big.Int).Add(p, big.NewInt(i)).FillBytes(make([]byte, 32))
		slices.Reverse(b)
		for _, sign := range []byte{0, 0x80} {
			b[31] = b[31]&0x7f | sign
			if err := CheckPublic(b); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "not written as") {
				t.Errorf("p + %d: %v", i, err)
			}
		}
	}
	below := new(big.Int).Sub(p, big.NewInt(2)).FillBytes(make([]byte, 32))
	slices.Reverse(below)
	if err := CheckPublic(below); err != nil {
		t.Errorf("p - 2: %v", err)
	}
	for range 100 {
		key, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckPublic(KeySigner(key).Public()); err != nil {
			t.Error(err)
		}
	}
}
