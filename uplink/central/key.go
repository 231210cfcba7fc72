package central

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// NewKey makes a key to sign with, and the file that keeps it: PKCS 8 in PEM, as openssl reads and writes it.
func NewKey() (ed25519.PrivateKey, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParseKey reads such a file.
func ParseKey(file []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(file)
	if block == nil {
		return nil, errors.New("no PEM block in it; openssl genpkey -algorithm ed25519 makes one")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T, want ed25519", k)
	}
	return key, nil
}

const keyPrefix = "ed25519:"

// FormatPublic is how a public key is written: ed25519: and base64.
func FormatPublic(k ed25519.PublicKey) string {
	return keyPrefix + base64.RawStdEncoding.EncodeToString(k)
}

// ParsePublic reads what FormatPublic writes.
func ParsePublic(s string) (ed25519.PublicKey, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), keyPrefix)
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if !ok || err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("key %q: want ed25519: and 43 characters of base64, as weir central key prints it", s)
	}
	return b, nil
}
