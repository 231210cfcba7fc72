package signed

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
)

// Signer makes signatures of one key.
type Signer interface {
	ID() KeyID
	Public() ed25519.PublicKey
	// Sign signs Message(typ, payload). It may ask somebody, and take long.
	Sign(ctx context.Context, typ string, payload []byte) ([]byte, error)
}

// KeySigner signs with a key that is in memory.
type KeySigner ed25519.PrivateKey

// ID is the key's name.
func (k KeySigner) ID() KeyID { return IDOf(k.Public()) }

// Public is the public key.
func (k KeySigner) Public() ed25519.PublicKey {
	return ed25519.PrivateKey(k).Public().(ed25519.PublicKey)
}

// Sign signs.
func (k KeySigner) Sign(_ context.Context, typ string, payload []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(k), Message(typ, payload)), nil
}

// Seal makes the envelope of a payload. Without signers it has no signature; Add adds them.
func Seal(ctx context.Context, typ string, payload []byte, by ...Signer) (*Envelope, error) {
	if roleOf[typ] == "" {
		return nil, fmt.Errorf("%w: no type %q is known", ErrForm, typ)
	}
	e := &Envelope{Type: typ, Payload: slices.Clone(payload)}
	for _, s := range by {
		if err := e.Add(ctx, s); err != nil {
			return nil, err
		}
	}
	if n := len(e.Bytes()); n > BytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrSize, n, BytesMax)
	}
	return e, nil
}

// Add adds the signature of one key, or replaces it. What a signer gave is checked: one that holds another key than it says, or signs something else, is found here.
func (e *Envelope) Add(ctx context.Context, by Signer) error {
	if err := CheckPublic(by.Public()); err != nil {
		return err
	}
	key := by.ID()
	if key != IDOf(by.Public()) {
		return fmt.Errorf("%w: the signer says that it is %s, its key is %s", ErrKey, key, IDOf(by.Public()))
	}
	sig, err := by.Sign(ctx, e.Type, e.Payload)
	if err != nil {
		return fmt.Errorf("sign with %s: %w", key, err)
	}
	if !ed25519.Verify(by.Public(), Message(e.Type, e.Payload), sig) {
		return fmt.Errorf("%w: what signed for %s has another key, or signed other bytes", ErrSignature, key)
	}
	for i := range e.Signatures {
		if e.Signatures[i].Key == key {
			e.Signatures[i].Sig = sig
			return nil
		}
	}
	if len(e.Signatures) == SignaturesMax {
		return fmt.Errorf("%w: more than %d signatures", ErrForm, SignaturesMax)
	}
	e.Signatures = append(e.Signatures, Signature{key, sig})
	return nil
}
