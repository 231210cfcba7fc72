// Package signed is what the trust of a fleet rests on (fleet/FORMAT.md): envelopes of signed documents, keys and signers, and the chain of root documents that says whose signature
// counts for what. A payload is handed out, or parsed, only behind its signatures. It keeps no file but those that a caller names, reads no clock, and has no goroutine.
//
// Sources: ed25519 of RFC 8032, its key files of RFC 8410 and 7468; that type and bytes are signed is DSSE's (secure-systems-lab/dsse), the chain of roots TUF's (specification §5.3).
package signed

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/fleet/strict"
)

// The bounds of an envelope.
const (
	BytesMax      = 1 << 20
	SignaturesMax = 32
)

// The types of documents.
const (
	TypeRoot     = "root"
	TypeRelease  = "release"
	TypeRollout  = "rollout"
	TypeCommands = "commands"
	TypeState    = "state"
	TypeProgress = "progress"
	TypeResult   = "result"
)

// roleOf is whose signature a type needs.
var roleOf = map[string]Role{
	TypeRoot: RoleRoot, TypeRelease: RoleRelease, TypeRollout: RoleDeploy, TypeCommands: RoleDeploy,
	TypeState: RoleDevice, TypeProgress: RoleDevice, TypeResult: RoleDevice,
}

// RoleOf is the role whose signatures a document of the type needs; "": the type is not known.
func RoleOf(typ string) Role { return roleOf[typ] }

// Envelope is a document with its signatures, none of which was checked.
type Envelope struct {
	Type       string
	Payload    []byte
	Signatures []Signature
}

// Signature is that of one key. No two of an envelope are of the same key.
type Signature struct {
	Key KeyID
	Sig []byte // 64 bytes
}

// wire is an envelope as it is written. "weir" stays the first member: the format is known before anything else is.
type wire struct {
	Weir       int             `json:"weir"`
	Type       string          `json:"type" most:"16"`
	Payload    string          `json:"payload" most:"1048576"`
	Signatures []wireSignature `json:"signatures" most:"32"`
}

type wireSignature struct {
	Key string `json:"key" most:"32"`
	Sig string `json:"sig" most:"88"`
}

// Parse reads an envelope: form and sizes. The payload is not looked at, no signature is checked. Errors: ErrSize, ErrVersion, ErrForm.
func Parse(b []byte) (*Envelope, error) { return parse(b, planted{}) }

func parse(b []byte, fault planted) (*Envelope, error) {
	if len(b) > BytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrSize, len(b), BytesMax)
	}
	if n := formatOf(b); n > 1 {
		return nil, fmt.Errorf("%w: format %d, this weir reads 1; install a newer one to read it", ErrVersion, n)
	}
	var w wire
	if err := strict.Decode(b, &w); err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	if w.Weir != 1 {
		return nil, fmt.Errorf("envelope: %w: format %d, want 1", ErrForm, w.Weir)
	}
	if roleOf[w.Type] == "" {
		return nil, fmt.Errorf("envelope: %w: no type %q is known", ErrForm, w.Type)
	}
	e := &Envelope{Type: w.Type}
	var err error
	if e.Payload, err = decode64(w.Payload, fault); err != nil {
		return nil, fmt.Errorf("envelope: payload: %w", err)
	}
	for i, s := range w.Signatures {
		one := Signature{Key: KeyID(s.Key)}
		if !one.Key.wellFormed() {
			return nil, fmt.Errorf("envelope: signature %d: %w: key %q, want %d hexadecimal digits", i+1, ErrForm, s.Key, 2*keyIDBytes)
		}
		if one.Sig, err = decode64(s.Sig, fault); err == nil && len(one.Sig) != ed25519.SignatureSize {
			err = fmt.Errorf("%w: %d bytes, want %d", ErrForm, len(one.Sig), ed25519.SignatureSize)
		}
		if err != nil {
			return nil, fmt.Errorf("envelope: signature %d: %w", i+1, err)
		}
		if e.by(one.Key) != nil && !fault.twice {
			return nil, fmt.Errorf("envelope: %w: two signatures of the key %s", ErrForm, one.Key)
		}
		e.Signatures = append(e.Signatures, one)
	}
	return e, nil
}

// formatOf is the number behind a first member "weir"; 0: there is none, and the envelope is wrong in another way.
func formatOf(b []byte) uint64 {
	const space = " \t\r\n"
	text := string(b[:min(len(b), 256)])
	for _, part := range []string{"{", `"weir"`, ":"} {
		var is bool
		if text, is = strings.CutPrefix(strings.TrimLeft(text, space), part); !is {
			return 0
		}
	}
	text = strings.TrimLeft(text, space)
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	n, err := strconv.ParseUint(text[:max(end, 0)], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// decode64 reads standard base64 with padding, and only that: one text for the same bytes.
func decode64(text string, fault planted) ([]byte, error) {
	if fault.loose64 {
		return base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "="))
	}
	if strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return nil, fmt.Errorf("%w: a line break in base64", ErrForm)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: want standard base64 with padding: %w", ErrForm, err)
	}
	return b, nil
}

// Bytes is the envelope as it is stored: one line.
func (e *Envelope) Bytes() []byte {
	w := wire{Weir: 1, Type: e.Type, Payload: base64.StdEncoding.EncodeToString(e.Payload)}
	for _, s := range e.Signatures {
		w.Signatures = append(w.Signatures, wireSignature{string(s.Key), base64.StdEncoding.EncodeToString(s.Sig)})
	}
	b, err := strict.Encode(w)
	if err != nil {
		panic("BUG: an envelope of " + err.Error()) // Parse and Seal let no such type in
	}
	return append(b, '\n')
}

// by is the signature of the key, nil if there is none.
func (e *Envelope) by(key KeyID) []byte {
	for _, s := range e.Signatures {
		if s.Key == key {
			return s.Sig
		}
	}
	return nil
}

// Message is what is signed: the format, the type, the payload's bytes.
func Message(typ string, payload []byte) []byte {
	return append([]byte("weir document 1\n"+typ+"\n"), payload...)
}
