package document

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/fleet/strict"
)

// ErrForm is what each error of decoding and encoding is.
var ErrForm = strict.ErrForm

// checked is a document that can tell what is wrong with it.
type checked interface{ check() error }

// DecodeRelease reads the payload of a release whose signatures were verified.
func DecodeRelease(payload []byte) (*Release, error) { return decode("release", payload, &Release{}) }

// DecodeRollout reads the payload of a roll-out whose signatures were verified.
func DecodeRollout(payload []byte) (*Rollout, error) { return decode("rollout", payload, &Rollout{}) }

// DecodeCommands reads the payload of a list of commands whose signatures were verified.
func DecodeCommands(payload []byte) (*Commands, error) {
	return decode("commands", payload, &Commands{})
}

// DecodeState reads what a gateway says of itself, its signature verified.
func DecodeState(payload []byte) (*State, error) { return decode("state", payload, &State{}) }

// DecodeProgress reads how a gateway fares in an upgrade, its signature verified.
func DecodeProgress(payload []byte) (*Progress, error) {
	return decode("progress", payload, &Progress{})
}

// DecodeResult reads what came of a command, the gateway's signature verified.
func DecodeResult(payload []byte) (*Result, error) { return decode("result", payload, &Result{}) }

func decode[T checked](typ string, payload []byte, into T) (T, error) {
	var none T
	if err := strict.Decode(payload, into); err != nil {
		return none, fmt.Errorf("%s: %w", typ, err)
	}
	if err := into.check(); err != nil {
		return none, fmt.Errorf("%s: %w: %w", typ, ErrForm, err)
	}
	return into, nil
}

// encode writes a document, and refuses what decode would.
func encode[T checked](typ string, from, into T) ([]byte, error) {
	b, err := strict.Encode(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", typ, ErrForm, err)
	}
	if _, err := decode(typ, b, into); err != nil {
		return nil, err
	}
	return b, nil
}

// Encode is the payload, the same bytes for the same document. It refuses what DecodeRelease would.
func (r *Release) Encode() ([]byte, error) { return encode("release", r, &Release{}) }

// Encode is the payload, the same bytes for the same document. It refuses what DecodeRollout would.
func (r *Rollout) Encode() ([]byte, error) { return encode("rollout", r, &Rollout{}) }

// Encode is the payload, the same bytes for the same document. It refuses what DecodeCommands would.
func (c *Commands) Encode() ([]byte, error) { return encode("commands", c, &Commands{}) }

// first is the first error of a list of checks.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func named(member, value string) error {
	if err := strict.Name(value); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	return nil
}

// digest refuses what is no sha256 in lower-case hexadecimal.
func digest(member, value string) error {
	if len(value) != 64 {
		return fmt.Errorf("%s: %d characters, want the 64 of a sha256 in hexadecimal", member, len(value))
	}
	for _, c := range value {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%s: %q in it, want a sha256 in lower-case hexadecimal", member, c)
		}
	}
	return nil
}

func between[N int | int64 | uint64](member string, value, least, most N) error {
	if value < least || value > most {
		return fmt.Errorf("%s: %d, want %d to %d", member, value, least, most)
	}
	return nil
}

func serial(member string, value uint64) error {
	return between(member, value, 1, uint64(strict.SerialMost))
}

// times checks when a document was made, and until when it counts; 0: for ever.
func times(created, expires int64) error {
	if expires != 0 && expires < created {
		return errors.New("expires_ms is before created_ms")
	}
	return first(between("created_ms", created, 1, int64(strict.MsMost)), between("expires_ms", expires, 0, int64(strict.MsMost)))
}

func oneOf(member, value string, allowed []string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q, want one of %v", member, value, allowed)
}

// set checks a list of names in which none is twice.
func set(member string, names []string) error {
	seen := map[string]bool{}
	for i, n := range names {
		if seen[n] {
			return fmt.Errorf("%s: %q is there twice", member, n)
		}
		if seen[n] = true; strict.Name(n) != nil {
			return fmt.Errorf("%s[%d]: %w", member, i, strict.Name(n))
		}
	}
	return nil
}
