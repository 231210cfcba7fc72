package signed

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/fleet/strict"
)

// Role is who may sign what (fleet/DESIGN.md).
type Role string

// The roles. The root document has the keys of the first three; a device's key is the gateway's own.
const (
	RoleRoot    Role = "root"
	RoleRelease Role = "release"
	RoleDeploy  Role = "deploy"
	RoleDevice  Role = "device"
)

// Roles are those of the root document.
func Roles() []Role { return []Role{RoleRoot, RoleRelease, RoleDeploy} }

// Root says whose signature counts for what in a fleet.
type Root struct {
	Fleet     string `json:"fleet"`
	Version   uint64 `json:"version"` // from 1, without gaps
	CreatedMs int64  `json:"created_ms"`
	Keys      []Key  `json:"keys"`
	Roles     Grants `json:"roles"`
}

// Key is a key that a role has.
type Key struct {
	ID     KeyID  `json:"id" most:"32"`
	Public string `json:"public" most:"64"`         // ed25519: and 43 characters of base64
	Name   string `json:"name,omitempty" most:"64"` // who holds it, for people
}

// Grants are the roles.
type Grants struct {
	Root    Grant `json:"root"`
	Release Grant `json:"release"`
	Deploy  Grant `json:"deploy"`
}

// Grant is what a role has.
type Grant struct {
	Keys      []KeyID `json:"keys" most:"32" each:"32"`
	Threshold int     `json:"threshold"`
	// Floor is the lowest serial that counts. It never falls.
	Floor uint64 `json:"floor"`
	// Since is the root that gave the role keys of which the root before had none. Serials that were signed before it bind nobody any more: that is how a fleet gets on after a thief of
	// the keys has used up the serials. What was signed then cannot come back, as none of its keys is left.
	Since uint64 `json:"since"`
}

// Of is the grant of a role; nil: the document gives it none.
func (r *Root) Of(role Role) *Grant {
	switch role {
	case RoleRoot:
		return &r.Roles.Root
	case RoleRelease:
		return &r.Roles.Release
	case RoleDeploy:
		return &r.Roles.Deploy
	}
	return nil
}

// Encode is the payload. It refuses a root that DecodeRoot would.
func (r *Root) Encode() ([]byte, error) {
	b, err := strict.Encode(r)
	if err != nil {
		return nil, fmt.Errorf("root: %w: %w", ErrForm, err)
	}
	_, err = DecodeRoot(b)
	return b, err
}

// DecodeRoot reads and checks the payload of a root document. Whether it is to be trusted is Trust's to say.
func DecodeRoot(payload []byte) (*Root, error) {
	r := &Root{}
	if err := strict.Decode(payload, r); err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("root %d: %w: %w", r.Version, ErrForm, err)
	}
	return r, nil
}

func (r *Root) check() error {
	switch {
	case r.Version < 1 || r.Version > strict.SerialMost:
		return fmt.Errorf("version %d, want 1 to %d", r.Version, uint64(strict.SerialMost))
	case r.CreatedMs < 1 || r.CreatedMs > strict.MsMost:
		return fmt.Errorf("created_ms %d, want Unix milliseconds", r.CreatedMs)
	}
	if err := strict.Name(r.Fleet); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	known := map[KeyID]bool{}
	for _, k := range r.Keys {
		switch public, err := k.public(); {
		case err != nil:
			return fmt.Errorf("key %s: %w", k.ID, err)
		case IDOf(public) != k.ID:
			return fmt.Errorf("key %s: its name should be %s", k.ID, IDOf(public))
		case known[k.ID]:
			return fmt.Errorf("key %s is there twice", k.ID)
		case k.Name != "" && strict.Name(k.Name) != nil:
			return fmt.Errorf("key %s: name: %w", k.ID, strict.Name(k.Name))
		}
		known[k.ID] = true
	}
	holds := map[KeyID]Role{}
	for _, role := range Roles() {
		if err := r.checkRole(role, known, holds); err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
	}
	for _, k := range r.Keys {
		if holds[k.ID] == "" {
			return fmt.Errorf("key %s has no role", k.ID)
		}
	}
	return nil
}

// checkRole adds the role's keys to holds. A key has one role: what a stolen key can do is what that role can.
func (r *Root) checkRole(role Role, known map[KeyID]bool, holds map[KeyID]Role) error {
	g := r.Of(role)
	for _, k := range g.Keys {
		switch {
		case !known[k]:
			return fmt.Errorf("key %s is not among keys", k)
		case holds[k] == role:
			return fmt.Errorf("key %s is there twice", k)
		case holds[k] != "":
			return fmt.Errorf("key %s has the role %s already; a key has one role", k, holds[k])
		}
		holds[k] = role
	}
	switch {
	case g.Threshold < 1 || g.Threshold > len(g.Keys):
		return fmt.Errorf("threshold %d of %d keys, want 1 to %d", g.Threshold, len(g.Keys), len(g.Keys))
	case g.Since < 1 || g.Since > r.Version:
		return fmt.Errorf("since %d, want 1 to %d, a root", g.Since, r.Version)
	case g.Floor > strict.SerialMost:
		return fmt.Errorf("floor %d, want at most %d", g.Floor, uint64(strict.SerialMost))
	}
	return nil
}

func (k *Key) public() (ed25519.PublicKey, error) { return ParsePublic([]byte(k.Public)) }

// NewRootKey is the entry of a key.
func NewRootKey(public ed25519.PublicKey, name string) Key {
	return Key{ID: IDOf(public), Public: FormatLine(public), Name: name}
}

// RoleOf is the role that the key has; "": none.
func (r *Root) RoleOf(id KeyID) Role {
	for _, role := range Roles() {
		if slices.Contains(r.Of(role).Keys, id) {
			return role
		}
	}
	return ""
}

// NameOf is who holds the key, as the document has it; "": it does not say.
func (r *Root) NameOf(id KeyID) string {
	for _, k := range r.Keys {
		if k.ID == id {
			return k.Name
		}
	}
	return ""
}

// Public is the public key that the document has under this name, nil if it has none.
func (r *Root) Public(id KeyID) ed25519.PublicKey {
	for _, k := range r.Keys {
		if public, err := k.public(); k.ID == id && err == nil {
			return public
		}
	}
	return nil
}

// follows tells whether r may come behind old. Signatures are another question.
func (r *Root) follows(old *Root) error {
	switch {
	case r.Fleet != old.Fleet:
		return fmt.Errorf("%w: it is of the fleet %q, this one is %q", ErrChain, r.Fleet, old.Fleet)
	case r.Version <= old.Version:
		return fmt.Errorf("%w: root %d, root %d is known", ErrChain, r.Version, old.Version)
	case r.Version != old.Version+1:
		return fmt.Errorf("%w: root %d, root %d is known; those between must come first", ErrChain, r.Version, old.Version)
	}
	for _, role := range Roles() {
		was, is := old.Of(role), r.Of(role)
		renewed := !slices.ContainsFunc(is.Keys, func(k KeyID) bool { return slices.Contains(was.Keys, k) })
		switch {
		case is.Floor < was.Floor:
			return fmt.Errorf("%w: role %s: the floor of serials falls from %d to %d", ErrChain, role, was.Floor, is.Floor)
		case is.Since == was.Since, is.Since == r.Version && renewed:
		case is.Since == r.Version:
			return fmt.Errorf("%w: role %s: since is %d, though a key of root %d stays", ErrChain, role, is.Since, old.Version)
		default:
			return fmt.Errorf("%w: role %s: since is %d, it was %d", ErrChain, role, is.Since, was.Since)
		}
	}
	return nil
}

var errNoRole = errors.New("no keys of that role are in a root document")
