//go:build !noage

package central

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// EncryptBuilt tells whether this binary can encrypt.
const EncryptBuilt = true

// CheckRecipient says what is wrong with a public key.
func CheckRecipient(s string) error {
	_, err := age.ParseX25519Recipient(s)
	return err
}

// SealTo encrypts to each of the recipients (X25519, age-encryption.org/v1).
func SealTo(recipients []string) (Seal, error) {
	var all []age.Recipient
	for _, s := range recipients {
		r, err := age.ParseX25519Recipient(s)
		if err != nil {
			return nil, fmt.Errorf("recipient %q: %w", s, err)
		}
		all = append(all, r)
	}
	return func(plain []byte) ([]byte, error) {
		var out bytes.Buffer
		w, err := age.Encrypt(&out, all...)
		if err != nil {
			return nil, err
		}
		if _, err = w.Write(plain); err == nil {
			err = w.Close()
		}
		return out.Bytes(), err
	}, nil
}

// UnsealWith decrypts with the identities of a file as age-keygen writes it.
func UnsealWith(file []byte) (Unseal, error) {
	ids, err := age.ParseIdentities(strings.NewReader(string(file)))
	if err != nil {
		return nil, fmt.Errorf("read identities: %w", err)
	}
	return func(stored []byte) ([]byte, error) {
		r, err := age.Decrypt(bytes.NewReader(stored), ids...)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(r, pieceBytesMax))
	}, nil
}
