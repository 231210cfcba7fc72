package depot

import (
	"context"
	"crypto/ed25519"
	"testing"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

const now = int64(1_780_000_000_000)

// plant is a fleet with one key for each role, and a store.
type plant struct {
	t     *testing.T
	keys  map[signed.Role]signed.KeySigner
	roots [][]byte
	trust *signed.Trust
	store *buckettest.Memory
	Depot
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	p := &plant{t: t, keys: map[signed.Role]signed.KeySigner{}, store: &buckettest.Memory{}}
	p.store.Advance(now)
	p.Depot = Depot{p.store}
	t.Cleanup(p.knowsItsNames)
	r := &signed.Root{Fleet: "plant", Version: 1, CreatedMs: now}
	for _, role := range signed.Roles() {
		p.keys[role] = aKey(t)
		entry := signed.NewRootKey(p.keys[role].Public(), "")
		r.Keys = append(r.Keys, entry)
		*r.Of(role) = signed.Grant{Keys: []signed.KeyID{entry.ID}, Threshold: 1, Since: 1}
	}
	p.root(r)
	var err error
	if p.trust, err = signed.NewTrust(p.roots[0]); err != nil {
		t.Fatal(err)
	}
	return p
}

// knowsItsNames: whatever a test has led to, each name that lies there is one that Parse knows.
func (p *plant) knowsItsNames() {
	for after := ""; ; {
		page, err := p.store.List(context.Background(), Prefix, after)
		if err != nil {
			p.t.Error(err)
		}
		if len(page) == 0 {
			return
		}
		for _, o := range page {
			if after = o.Name; o.Name != Prefix+"rollout/r1/no~name" {
				if _, err := Parse(o.Name); err != nil {
					p.t.Error(err)
				}
			}
		}
	}
}

func aKey(t *testing.T) signed.KeySigner {
	t.Helper()
	key, err := signed.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signed.KeySigner(key)
}

// root signs a root document.
func (p *plant) root(r *signed.Root) []byte {
	p.t.Helper()
	payload, err := r.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	b := p.seal(signed.TypeRoot, payload, p.keys[signed.RoleRoot]).Bytes()
	p.roots = append(p.roots, b)
	return b
}

func (p *plant) seal(typ string, payload []byte, by ...signed.Signer) *signed.Envelope {
	p.t.Helper()
	e, err := signed.Seal(context.Background(), typ, payload, by...)
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

// rollout is a roll-out of that serial, signed by the role deploy.
func (p *plant) rollout(serial uint64, change func(*document.Rollout)) *signed.Envelope {
	p.t.Helper()
	r := &document.Rollout{Fleet: "plant", Serial: serial, Channel: "stable", ID: "r1", Release: sha, CreatedMs: now, Permille: 1000, Policy: document.Policy{Savepoint: "required"}}
	if change != nil {
		change(r)
	}
	payload, err := r.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	return p.seal(signed.TypeRollout, payload, p.keys[signed.RoleDeploy])
}

func (p *plant) publish(e *signed.Envelope) error {
	p.t.Helper()
	c, _, err := p.CurrentRollout(p.t.Context(), p.trust, "stable")
	if err != nil {
		return err
	}
	return p.PublishRollout(p.t.Context(), p.trust, "stable", c, e)
}

// says puts what a gateway says of itself or of a roll-out.
func (p *plant) says(name string, payload []byte, err error, typ string, key signed.KeySigner) {
	p.t.Helper()
	if err == nil {
		err = p.store.Put(p.t.Context(), name, p.seal(typ, payload, key).Bytes())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func public(k signed.KeySigner) ed25519.PublicKey { return k.Public() }
