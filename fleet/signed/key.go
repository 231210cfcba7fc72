package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const keyIDBytes = 16

// KeyID names a public key: the first 16 bytes of its sha256, in hexadecimal.
type KeyID string

// IDOf is the name of the key.
func IDOf(key ed25519.PublicKey) KeyID {
	sum := sha256.Sum256(key)
	return KeyID(hex.EncodeToString(sum[:keyIDBytes]))
}

func (k KeyID) wellFormed() bool {
	return len(k) == 2*keyIDBytes && strings.Trim(string(k), "0123456789abcdef") == ""
}

// What stands before the 32 bytes of a key in DER, RFC 8410 sections 4 and 7. Nothing of it varies, so nothing is parsed.
var (
	privatePrefix = []byte{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}
	publicPrefix  = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}
)

const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
	textPrefix   = "ed25519:" // as weir central key prints it
	keyFileMost  = 64 << 10
)

// NewKey makes a key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

// FormatPrivate is the file of a private key: PKCS 8 in PEM, as openssl genpkey writes it.
func FormatPrivate(key ed25519.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: append(bytes.Clone(privatePrefix), key.Seed()...)})
}

// FormatPublic is the file of a public key: PEM, as openssl pkey -pubout writes it.
func FormatPublic(key ed25519.PublicKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: append(bytes.Clone(publicPrefix), key...)})
}

// ParsePrivate reads the file of a private key.
func ParsePrivate(file []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(file)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%w: no PEM block in it, want a private key as weir keys new or openssl genpkey -algorithm ed25519 makes it", ErrKey)
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return nil, fmt.Errorf("%w: it is encrypted; have what can decrypt it sign, by --sign-with", ErrKey)
	case block.Type == publicBlock:
		return nil, fmt.Errorf("%w: it is a public key, the private one is needed to sign", ErrKey)
	case block.Type != privateBlock:
		return nil, fmt.Errorf("%w: %q, want %q", ErrKey, block.Type, privateBlock)
	}
	seed, is := bytes.CutPrefix(block.Bytes, privatePrefix)
	if !is || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%w: a private key of another kind than ed25519", ErrKey)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// ParsePublic reads a public key: PEM, or one line as weir central key prints it. A key that is of no use (CheckPublic) is refused.
func ParsePublic(file []byte) (ed25519.PublicKey, error) {
	key := []byte(nil)
	if text, is := strings.CutPrefix(strings.TrimSpace(string(file)), textPrefix); is {
		b, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%w: want %s and 43 characters of base64", ErrKey, textPrefix)
		}
		key = b
	} else {
		block, _ := pem.Decode(file)
		switch {
		case block == nil:
			return nil, fmt.Errorf("%w: neither PEM nor %s…, want a public key as weir keys new or openssl pkey -pubout makes it", ErrKey, textPrefix)
		case strings.HasSuffix(block.Type, privateBlock):
			return nil, fmt.Errorf("%w: it is a private key, which nobody but its holder should have; give the public one", ErrKey)
		case block.Type != publicBlock || !bytes.HasPrefix(block.Bytes, publicPrefix):
			return nil, fmt.Errorf("%w: a %s of another kind than ed25519", ErrKey, strings.ToLower(block.Type))
		}
		key = block.Bytes[len(publicPrefix):]
	}
	if err := CheckPublic(key); err != nil {
		return nil, err
	}
	return key, nil
}

// smallOrder are the points whose order divides the cofactor 8, without the sign bit: for such a key, signatures can be made that hold for many messages, without a secret
// (RFC 8032 §5.1.7 lets them pass). key_test.go works them out.
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// CheckPublic refuses keys of a wrong length, of small order, and those written in a second way (y not below 2^255 − 19): each key has one name.
func CheckPublic(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: %d bytes, want %d", ErrKey, len(key), ed25519.PublicKeySize)
	}
	y := bytes.Clone(key)
	y[31] &= 0x7f
	if y[31] == 0x7f && y[0] >= 0xed && len(bytes.Trim(y[1:31], "\xff")) == 0 {
		return fmt.Errorf("%w: not written as RFC 8032 has it", ErrKey)
	}
	text := hex.EncodeToString(y)
	for _, weak := range smallOrder {
		if text == weak {
			return fmt.Errorf("%w: a point of small order, whose signatures anybody can make", ErrKey)
		}
	}
	return nil
}

// ReadPrivate reads the file of a private key, which only its owner may read or write.
func ReadPrivate(path string) (ed25519.PrivateKey, error) {
	b, mode, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParsePrivate(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: %w: others may read or write it (mode %04o); chmod 600 %s, and think whether somebody has read it", path, ErrKey, mode.Perm(), path)
	}
	return key, nil
}

// ReadPublic reads the file of a public key.
func ReadPublic(path string) (ed25519.PublicKey, error) {
	b, _, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParsePublic(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func readKeyFile(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > keyFileMost {
		return nil, 0, fmt.Errorf("%s: %w: want a small file", path, ErrKey)
	}
	b, err := os.ReadFile(path)
	return b, info.Mode(), err
}

// FormatLine is a public key on one line, as weir central key prints it.
func FormatLine(key ed25519.PublicKey) string {
	return textPrefix + base64.RawStdEncoding.EncodeToString(key)
}
