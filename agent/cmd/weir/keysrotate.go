//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/signed"
)

// rotateFlags say what the next root changes.
type rotateFlags struct {
	sign      signFlags
	root, to  string
	adds      perRole
	removes   perRole
	threshold perRole
	floor     perRole
}

func keysRotateCommand(o *options) *cobra.Command {
	f := &rotateFlags{}
	c := &cobra.Command{
		Use: "rotate --root ROOT.json --to NEXT.json", Short: "Make the next root document: other keys, thresholds, floors of serials", Args: usageArgs(cobra.NoArgs),
		Long: `Makes the root document that follows ROOT.json and signs it with the keys that are given. It counts once a threshold of the root keys of ROOT.json and a threshold of its own have signed it: its
holders add their signatures one after the other with weir keys sign. When all keys of a role are replaced, gateways forget the serials that the old ones had used.`,
		Example: "  weir keys rotate --root root.1.json --to root.2.json --remove deploy=deploy-1 --add deploy=carol.pub --key root-1.key",
		RunE: func(c *cobra.Command, _ []string) error {
			t, e, err := f.run(c)
			if err != nil {
				return err
			}
			return o.tell(c, inspect(f.to, e, t))
		},
	}
	c.Flags().StringVar(&f.root, "root", "", "the root document that is in force")
	c.Flags().StringVar(&f.to, "to", "", "where the next one is written")
	c.Flags().StringArrayVar((*[]string)(&f.adds), "add", nil, "ROLE=FILE.pub: give the role a key; may be repeated")
	c.Flags().StringArrayVar((*[]string)(&f.removes), "remove", nil, "ROLE=KEY: take a key from the role, by its name, its id or the beginning of it; may be repeated")
	c.Flags().StringArrayVar((*[]string)(&f.threshold), "threshold", nil, "ROLE=N: so many must sign")
	c.Flags().StringArrayVar((*[]string)(&f.floor), "floor", nil, "ROLE=N: no serial below it counts any more; it never falls")
	f.sign.add(c)
	return c
}

func (f *rotateFlags) run(c *cobra.Command) (*signed.Trust, *signed.Envelope, error) {
	if f.root == "" || f.to == "" {
		return nil, nil, usageError{errors.New("--root and --to are needed: the root document that is in force, and where the next one is written")}
	}
	if err := refuseExisting(f.to); err != nil {
		return nil, nil, err
	}
	t, err := readTrust(c.Context(), []string{f.root})
	if err != nil {
		return nil, nil, err
	}
	signers, err := f.sign.signers(c.Context(), c.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	old, next := t.Root(), t.Root()
	next.Version, next.CreatedMs = old.Version+1, time.Now().UnixMilli()
	if next.CreatedMs < old.CreatedMs {
		return nil, nil, usageError{fmt.Errorf("%s is of %s, and this machine's clock says %s: set the clock", f.root, date(old.CreatedMs), date(next.CreatedMs))}
	}
	if err := f.change(old, next); err != nil {
		return nil, nil, err
	}
	payload, err := next.Encode()
	if err != nil {
		return nil, nil, usageError{err}
	}
	e, err := signed.Seal(c.Context(), signed.TypeRoot, payload)
	if err != nil {
		return nil, nil, err
	}
	if err := signAll(c.Context(), e, signers, maySign(e.Type, next, old)); err != nil {
		return nil, nil, err
	}
	return t, e, writeDocument(c, f.to, e)
}

// change does what the flags say.
func (f *rotateFlags) change(old, next *signed.Root) error {
	if err := f.removes.each("remove", func(role signed.Role, key string) error { return removeKey(next, role, key) }); err != nil {
		return err
	}
	if err := f.adds.each("add", func(role signed.Role, path string) error { return addKey(next, role, path) }); err != nil {
		return err
	}
	if err := f.threshold.numbers("threshold", func(role signed.Role, n int) { next.Of(role).Threshold = n }); err != nil {
		return err
	}
	if err := f.floor.numbers("floor", func(role signed.Role, n int) { next.Of(role).Floor = uint64(n) }); err != nil {
		return err
	}
	for _, role := range signed.Roles() {
		was, is := old.Of(role), next.Of(role)
		if is.Floor < was.Floor {
			return usageError{fmt.Errorf("--floor %s=%d: it is %d, and never falls", role, is.Floor, was.Floor)}
		}
		if len(is.Keys) < is.Threshold {
			return usageError{fmt.Errorf("role %s: %d of %d keys are to sign; --add another one, or lower it by --threshold", role, is.Threshold, len(is.Keys))}
		}
		if !slices.ContainsFunc(is.Keys, func(k signed.KeyID) bool { return slices.Contains(was.Keys, k) }) {
			is.Since = next.Version
		}
	}
	return nil
}

// removeKey takes a key from a role, and from the document.
func removeKey(r *signed.Root, role signed.Role, key string) error {
	var found []signed.KeyID
	for _, id := range r.Of(role).Keys {
		if r.NameOf(id) == key || len(key) >= 8 && strings.HasPrefix(string(id), key) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		var has []string
		for _, id := range r.Of(role).Keys {
			has = append(has, label(r.NameOf(id), id))
		}
		return fmt.Errorf("%d keys of that role have this name or id; it has %s", len(found), strings.Join(has, ", "))
	}
	g := r.Of(role)
	g.Keys = slices.DeleteFunc(g.Keys, func(k signed.KeyID) bool { return k == found[0] })
	r.Keys = slices.DeleteFunc(r.Keys, func(k signed.Key) bool { return k.ID == found[0] })
	return nil
}

// maySign refuses keys whose signature would count for nothing under any of the roots.
func maySign(typ string, roots ...*signed.Root) func(signed.KeyID) error {
	role := signed.RoleOf(typ)
	return func(id signed.KeyID) error {
		has := signed.Role("")
		for _, r := range roots {
			if r.RoleOf(id) == role {
				return nil
			}
			if has == "" {
				has = r.RoleOf(id)
			}
		}
		of := "no role"
		if has != "" {
			of = "the role " + string(has)
		}
		return fmt.Errorf("the key %s has %s; a document of the type %s needs the role %s", id, of, typ, role)
	}
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04") }

func label(name string, id signed.KeyID) string {
	if name == "" {
		return string(id)
	}
	return name + " (" + string(id) + ")"
}
