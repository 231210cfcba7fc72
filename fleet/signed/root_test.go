package signed

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/strict"
)

func TestRootForm(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Root)
		want   string
	}{
		"no fleet":                 {func(r *Root) { r.Fleet = "" }, "fleet"},
		"version 0":                {func(r *Root) { r.Version = 0 }, "version 0"},
		"no time":                  {func(r *Root) { r.CreatedMs = 0 }, "created_ms"},
		"threshold 0":              {func(r *Root) { r.Roles.Deploy.Threshold = 0 }, "threshold 0 of 2"},
		"a threshold out of reach": {func(r *Root) { r.Roles.Root.Threshold = 4 }, "threshold 4 of 3"},
		"a role without keys":      {func(r *Root) { r.Roles.Release.Keys = nil }, "threshold 1 of 0"},
		"a name that is not its key's": {func(r *Root) {
			r.Keys[0].ID = keyOf("other").ID()
			r.Roles.Root.Keys[0] = r.Keys[0].ID
		}, "its name should be"},
		"a key twice":              {func(r *Root) { r.Keys = append(r.Keys, r.Keys[0]) }, "is there twice"},
		"twice in a role":          {func(r *Root) { r.Roles.Root.Keys[1] = r.Roles.Root.Keys[0] }, "is there twice"},
		"a key in two roles":       {func(r *Root) { r.Roles.Deploy.Keys[0] = r.Roles.Release.Keys[0] }, "a key has one role"},
		"an unknown key in a role": {func(r *Root) { r.Roles.Deploy.Keys[0] = keyOf("other").ID() }, "is not among keys"},
		"a key without a role":     {func(r *Root) { r.Keys = append(r.Keys, NewRootKey(keyOf("other").Public(), "")) }, "has no role"},
		"a key of small order":     {func(r *Root) { weak(r, make(ed25519.PublicKey, 32)) }, "small order"},
		"a key written otherwise":  {func(r *Root) { weak(r, slices.Repeat([]byte{0xff}, 32)) }, "not written as"},
		"a short key":              {func(r *Root) { weak(r, make(ed25519.PublicKey, 31)) }, "31 bytes"},
		"since 0":                  {func(r *Root) { r.Roles.Deploy.Since = 0 }, "since 0"},
		"since the future":         {func(r *Root) { r.Roles.Deploy.Since = 2 }, "since 2"},
		"a floor that is too high": {func(r *Root) { r.Roles.Deploy.Floor = 1 << 60 }, "floor"},
		"33 keys in a role":        {func(r *Root) { r.Roles.Root.Keys = slices.Repeat(r.Roles.Root.Keys, 11) }, "more than 32"},
		"a name that hides":        {func(r *Root) { r.Keys[0].Name = "a\x1b[2J" }, "do not print"},
	} {
		t.Run(name, func(t *testing.T) {
			r := firstRoot()
			c.change(r)
			b, err := strict.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeRoot(b); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := r.Encode(); !errors.Is(err, ErrForm) {
				t.Errorf("it can be written: %v", err)
			}
			if _, err := NewTrust(sealed(t, TypeRoot, b, "r1", "r2", "r3")); !errors.Is(err, ErrForm) {
				t.Errorf("it is trusted: %v", err)
			}
		})
	}
}

func weak(r *Root, key ed25519.PublicKey) {
	r.Keys[0].Public, r.Keys[0].ID = textPrefix+base64.RawStdEncoding.EncodeToString(key), IDOf(key)
	r.Roles.Root.Keys[0] = r.Keys[0].ID
}

func TestNewTrustAgreesWithItself(t *testing.T) {
	for name, by := range map[string][]string{"nobody": nil, "one of two": {"r1"}, "other roles": {"rel", "d1", "d2"}} {
		if _, err := NewTrust(seal(t, firstRoot(), by...)); !errors.Is(err, ErrThreshold) {
			t.Errorf("by %s: %v", name, err)
		}
	}
	if _, err := NewTrust(sealed(t, TypeRelease, []byte("{}"), "r1", "r2")); !errors.Is(err, ErrType) {
		t.Errorf("a release as a root: %v", err)
	}
}
