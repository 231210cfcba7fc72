package signed

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestVerify(t *testing.T) {
	tr := trust(t)
	payload := []byte(`{"any":"bytes"}`)
	for _, c := range []struct {
		name, typ string
		by        []string
		want      error
	}{
		{"release by release", TypeRelease, []string{"rel"}, nil},
		{"roll-out by both", TypeRollout, []string{"d1", "d2"}, nil},
		{"commands by both, others as well", TypeCommands, []string{"r1", "d1", "stranger", "d2"}, nil},
		{"roll-out by one of two", TypeRollout, []string{"d1"}, ErrThreshold},
		{"roll-out by one of two and a stranger", TypeRollout, []string{"d1", "stranger"}, ErrThreshold},
		{"release by deploy", TypeRelease, []string{"d1", "d2"}, ErrThreshold},
		{"release by root", TypeRelease, []string{"r1", "r2", "r3"}, ErrThreshold},
		{"roll-out by release", TypeRollout, []string{"rel"}, ErrThreshold},
		{"release by nobody", TypeRelease, nil, ErrThreshold},
		{"a device's by all", TypeState, []string{"r1", "r2", "r3", "rel", "d1", "d2"}, ErrThreshold},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := tr.Verify(sealed(t, c.typ, payload, c.by...), c.typ)
			if !errors.Is(err, c.want) || (err == nil) != bytes.Equal(got, payload) {
				t.Errorf("got %q, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestVerifyAsksForTheType(t *testing.T) {
	tr := trust(t)
	b := sealed(t, TypeRollout, []byte("{}"), "d1", "d2")
	for _, typ := range []string{TypeCommands, TypeRelease, TypeRoot, TypeState, "", "nonsense"} {
		if _, err := tr.Verify(b, typ); !errors.Is(err, ErrType) {
			t.Errorf("as %q: %v", typ, err)
		}
	}
	if _, err := tr.Verify(tr.Envelope(), TypeRoot); !errors.Is(err, ErrType) {
		t.Errorf("a root as any document: %v", err)
	}
}

func TestRootChain(t *testing.T) {
	tr := trust(t)
	old := tr.Envelope()
	// r1 and r2 go, r4 and r5 come; the deploy keys are all new; the release key is a second one.
	second := rootOf(2, grant(2, 1, "r3", "r4", "r5"), grant(1, 1, "rel", "rel2"), grant(1, 2, "d3"), "r3", "r4", "r5", "rel", "rel2", "d3")
	second.Roles.Release.Floor = 7
	for _, c := range []struct {
		name string
		by   []string
		want error
	}{
		{"only the old", []string{"r1", "r2"}, ErrThreshold},
		{"only the new", []string{"r4", "r5"}, ErrThreshold},
		{"one too few of the old", []string{"r3", "r4"}, ErrThreshold},
		{"one too few of the new", []string{"r1", "r3"}, ErrThreshold},
		{"deploy keys", []string{"d1", "d2", "d3"}, ErrThreshold},
	} {
		if err := tr.Advance(seal(t, second, c.by...)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if tr.Version() != 1 || !bytes.Equal(tr.Envelope(), old) {
		t.Fatal("a root that was refused has changed something")
	}
	next := seal(t, second, "r1", "r3", "r4")
	if err := tr.Advance(next); err != nil {
		t.Fatal(err)
	}
	if tr.Version() != 2 || tr.Fleet() != "plant" || tr.Floor(RoleRelease) != 7 || tr.Since(RoleDeploy) != 2 || tr.Since(RoleRelease) != 1 || !bytes.Equal(tr.Envelope(), next) {
		t.Errorf("after it: %+v", tr.Root())
	}
	if _, err := tr.Verify(sealed(t, TypeRollout, []byte("{}"), "d1", "d2"), TypeRollout); !errors.Is(err, ErrThreshold) {
		t.Errorf("a roll-out by keys that went: %v", err)
	}
	if _, err := tr.Verify(sealed(t, TypeRollout, []byte("{}"), "d3"), TypeRollout); err != nil {
		t.Errorf("a roll-out by the key that came: %v", err)
	}
	if err := tr.Advance(next); !errors.Is(err, ErrChain) {
		t.Errorf("the same root again: %v", err)
	}
	if err := tr.Advance(old); err == nil {
		t.Error("a root that goes back is taken")
	}
	again, err := NewTrust(tr.Envelope())
	if err != nil || again.Version() != 2 {
		t.Errorf("at the next start: %v", err)
	}
}

func TestRootFollows(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Root)
		want   string
	}{
		"a gap":                        {func(r *Root) { r.Version = 3 }, "those between must come first"},
		"another fleet":                {func(r *Root) { r.Fleet = "other" }, "of the fleet"},
		"a floor that falls":           {func(r *Root) { r.Roles.Deploy.Floor = 4 }, "falls from 5 to 4"},
		"since, though a key stays":    {func(r *Root) { r.Roles.Deploy.Since = 2 }, "though a key of root 1 stays"},
		"the first root, signed anew":  {func(r *Root) { r.Version = 1 }, "is known"},
		"nothing but the floor raised": {func(r *Root) { r.Roles.Deploy.Floor = 6 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := firstRoot(), firstRoot()
			one.Roles.Deploy.Floor, two.Roles.Deploy.Floor, two.Version = 5, 5, 2
			tr, err := NewTrust(seal(t, one, "r1", "r2"))
			if err != nil {
				t.Fatal(err)
			}
			c.change(two)
			err = tr.Advance(seal(t, two, "r1", "r2"))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrChain) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestVerifyDevice(t *testing.T) {
	device, other := keyOf("gw-1"), keyOf("gw-2")
	b := sealed(t, TypeState, []byte("{}"), "gw-1")
	if _, err := VerifyDevice(b, TypeState, device.Public()); err != nil {
		t.Error(err)
	}
	if _, err := VerifyDevice(b, TypeState, other.Public()); !errors.Is(err, ErrThreshold) {
		t.Errorf("by another device's key: %v", err)
	}
	if _, err := VerifyDevice(b, TypeResult, device.Public()); !errors.Is(err, ErrType) {
		t.Errorf("as another type: %v", err)
	}
	if _, err := VerifyDevice(sealed(t, TypeRollout, []byte("{}"), "gw-1"), TypeRollout, device.Public()); !errors.Is(err, ErrType) {
		t.Errorf("a roll-out by a device: %v", err)
	}
}
