//go:build !noage

package central

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"
)

// TestEncrypted: what is stored shows nothing of the state, results and plan; the uploader has no private key and still finds what is torn; who has one gets all of it.
func TestEncrypted(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := SealTo([]string{id.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, encrypt := range []bool{true, false} {
		w := newWorld(t, 51)
		w.plan = []byte("plan: " + strings.Repeat("secret ", 3))
		w.config = func(c *Config) {
			c.RebaseRatio = 1
			if encrypt {
				c.Seal = seal
			}
		}
		w.start()
		if err := w.story(5); err != nil {
			t.Fatal(err)
		}
		open := func(ids *age.X25519Identity) error {
			f := &Fetcher{Gateway: testGateway, Bucket: w.bucket.Clone(), Trust: trusted()}
			if ids != nil {
				var err error
				if f.Unseal, err = UnsealWith([]byte("# a comment\n" + ids.String() + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			got, err := f.Fetch(t.Context(), testID, newSpool())
			if err != nil {
				return err
			}
			n := 0
			if err := got.Entries(func(uint64, []byte, []byte, []byte) error { n++; return nil }); err != nil {
				return err
			}
			if n != len(w.states[got.Manifest.Checkpoint]) || string(got.Plan) != string(w.plan) {
				t.Fatalf("%d entries, plan %q", n, got.Plan)
			}
			return nil
		}
		readable := 0
		for _, name := range w.bucket.Names("gw~2F1/object/") {
			b, _, err := w.bucket.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("age-encryption.org/v1")) {
				continue
			}
			readable++
		}
		if encrypt != (readable == 0) {
			t.Fatalf("encrypt %v: %d objects are readable", encrypt, readable)
		}
		if err := open(id); err != nil {
			t.Fatalf("with the identity: %v", err)
		}
		if err := open(nil); errors.Is(err, ErrEncrypted) != encrypt {
			t.Fatalf("without one: %v", err)
		}
		if err := open(other); errors.Is(err, ErrEncrypted) != encrypt {
			t.Fatalf("with another: %v", err)
		}
	}
	for _, bad := range []string{"", "age1", "age1nobody", id.String()} {
		if CheckRecipient(bad) == nil {
			t.Errorf("%q is taken for a public key", bad)
		}
	}
}
