package signed

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
)

// Trust is the newest root document that is known, and what follows from it. It has one owner.
type Trust struct {
	root     *Root
	envelope []byte
	fault    planted
}

// NewTrust begins with a root that somebody has provisioned: it is believed, and only has to agree with itself, a threshold of its own root keys having signed it.
func NewTrust(root []byte) (*Trust, error) {
	e, err := parseRoot(root, planted{})
	if err != nil {
		return nil, err
	}
	r, err := DecodeRoot(e.Payload)
	if err != nil {
		return nil, err
	}
	if err := r.verify(e, RoleRoot, planted{}); err != nil {
		return nil, fmt.Errorf("root %d by its own keys: %w", r.Version, err)
	}
	return &Trust{root: r, envelope: bytes.Clone(root)}, nil
}

// Advance takes the next root: version + 1, signed by a threshold of the root keys that are known, and by one of its own. On an error nothing has changed. A root that is known
// already is ErrChain.
func (t *Trust) Advance(root []byte) error {
	e, err := parseRoot(root, t.fault)
	if err != nil {
		return err
	}
	if t.fault.parseFirst {
		if _, err := DecodeRoot(e.Payload); err != nil {
			return err
		}
	}
	if err := t.root.verify(e, RoleRoot, t.fault); err != nil && !t.fault.newAlone { // before its payload is parsed
		return fmt.Errorf("root by the keys of root %d: %w", t.root.Version, err)
	}
	r, err := DecodeRoot(e.Payload)
	if err != nil {
		return err
	}
	if err := r.follows(t.root); err != nil && !t.fault.anyNext {
		return err
	}
	if err := r.verify(e, RoleRoot, t.fault); err != nil && !t.fault.oldAlone {
		return fmt.Errorf("root %d by its own keys: %w", r.Version, err)
	}
	t.root, t.envelope = r, bytes.Clone(root)
	return nil
}

func parseRoot(b []byte, fault planted) (*Envelope, error) {
	e, err := parse(b, fault)
	if err == nil && e.Type != TypeRoot {
		err = fmt.Errorf("%w: %s, want %s", ErrType, e.Type, TypeRoot)
	}
	return e, err
}

// Version is the root's number, Fleet whose it is.
func (t *Trust) Version() uint64 { return t.root.Version }

// Fleet is the name of the fleet.
func (t *Trust) Fleet() string { return t.root.Fleet }

// Floor is the lowest serial of the role that counts.
func (t *Trust) Floor(role Role) uint64 {
	if g := t.root.Of(role); g != nil {
		return g.Floor
	}
	return 0
}

// Since is the root that renewed all keys of the role. A serial that was remembered under an earlier Since is forgotten: only Floor binds (fleet/DESIGN.md).
func (t *Trust) Since(role Role) uint64 {
	if g := t.root.Of(role); g != nil {
		return g.Since
	}
	return 0
}

// Envelope is the root's, to be kept and given to NewTrust at the next start.
func (t *Trust) Envelope() []byte { return bytes.Clone(t.envelope) }

// Root is a copy of the document.
func (t *Trust) Root() *Root {
	e, err := Parse(t.envelope)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	r, err := DecodeRoot(e.Payload)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return r
}

// Verify gives the payload of a document of that type when a threshold of the keys of its role have signed it; nothing of the payload was parsed. A signature by another key is passed over, a
// wrong one by a key of the role refuses the document. Roots are Advance's, what devices sign VerifyDevice's. Errors: ErrSize, ErrVersion, ErrForm, ErrType, ErrSignature, ErrThreshold.
func (t *Trust) Verify(b []byte, typ string) (payload []byte, err error) {
	e, err := parse(b, t.fault)
	if err != nil {
		return nil, err
	}
	if e.Type != typ || typ == TypeRoot {
		return nil, fmt.Errorf("%w: %s, want %s", ErrType, e.Type, typ)
	}
	if err := t.root.verify(e, roleOf[typ], t.fault); err != nil {
		return nil, fmt.Errorf("%s: %w", typ, err)
	}
	return e.Payload, nil
}

// VerifyDevice gives the payload of what a gateway says of itself, signed by its key.
func VerifyDevice(b []byte, typ string, key ed25519.PublicKey) (payload []byte, err error) {
	e, err := Parse(b)
	if err != nil {
		return nil, err
	}
	if e.Type != typ || roleOf[typ] != RoleDevice {
		return nil, fmt.Errorf("%w: %s, want %s", ErrType, e.Type, typ)
	}
	if err := CheckPublic(key); err != nil {
		return nil, err
	}
	sig := e.by(IDOf(key))
	if sig == nil {
		return nil, fmt.Errorf("%s: %w: none by the device's key %s", typ, ErrThreshold, IDOf(key))
	}
	if !ed25519.Verify(key, Message(e.Type, e.Payload), sig) {
		return nil, fmt.Errorf("%s: %w by the device's key %s", typ, ErrSignature, IDOf(key))
	}
	return e.Payload, nil
}

// verify tells whether enough keys of the role have signed.
func (r *Root) verify(e *Envelope, role Role, fault planted) error {
	g := r.Of(role)
	if g == nil {
		return fmt.Errorf("%w: role %s: %w", ErrThreshold, role, errNoRole)
	}
	keys := g.Keys // each once, by check
	if fault.anyRole {
		keys = slices.Concat(r.Roles.Root.Keys, r.Roles.Release.Keys, r.Roles.Deploy.Keys)
	}
	message := Message(e.Type, e.Payload)
	if fault.typeUnbound {
		message = e.Payload
	}
	good, wrong := r.signed(e, keys, message)
	if len(wrong) > 0 && !fault.wrongPasses {
		return fmt.Errorf("%w by the key %s, which has the role %s", ErrSignature, wrong[0], role)
	}
	if len(good) < g.Threshold {
		return fmt.Errorf("%w: %d of %d that the role %s needs in root %d", ErrThreshold, len(good), g.Threshold, role, r.Version)
	}
	return nil
}

// Signed are the keys of the role that have signed, and those whose signature is wrong. It decides nothing; Verify and Advance do.
func (r *Root) Signed(e *Envelope, role Role) (good, wrong []KeyID) {
	g := r.Of(role)
	if g == nil {
		return nil, nil
	}
	return r.signed(e, g.Keys, Message(e.Type, e.Payload))
}

func (r *Root) signed(e *Envelope, keys []KeyID, message []byte) (good, wrong []KeyID) {
	for _, id := range keys {
		for _, s := range e.Signatures { // at most one of a key, by Parse
			switch {
			case s.Key != id:
			case ed25519.Verify(r.Public(id), message, s.Sig):
				good = append(good, id)
			default:
				wrong = append(wrong, id)
			}
		}
	}
	return good, wrong
}
