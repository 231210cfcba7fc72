//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/signed"
)

// initFlags say which keys the first root has.
type initFlags struct {
	fleet     string
	make      perRole
	adds      perRole
	threshold perRole
}

func keysInitCommand(o *options) *cobra.Command {
	f := &initFlags{}
	c := &cobra.Command{
		Use: "init DIR --fleet NAME", Short: "Begin a fleet: make its keys and its first root document", Args: usageArgs(cobra.ExactArgs(1)),
		Long: `Makes in DIR, which may be there and keeps what it has: ROLE-N.key and ROLE-N.pub for each key, and root.1.json, signed with the root keys that were made. Each role has one key unless --make or
--add say otherwise; with --add alone none is made for that role, and its holders sign root.1.json with weir keys sign. Then take each private key to where it belongs (docs/keys.md).`,
		Example: "  weir keys init keys --fleet plant --make root=3 --threshold root=2\n  weir keys init keys --fleet plant --add root=alice.pub --add root=bob.pub --add deploy=hsm.pub",
		RunE: func(c *cobra.Command, args []string) error {
			e, err := f.run(c, args[0])
			if err != nil {
				return err
			}
			return o.tell(c, inspect(filepath.Join(args[0], "root.1.json"), e, nil))
		},
	}
	c.Flags().StringVar(&f.fleet, "fleet", "", "name of the fleet: no document of another one counts")
	c.Flags().StringArrayVar((*[]string)(&f.make), "make", nil, "ROLE=N: make so many keys for the role (default 1 each)")
	c.Flags().StringArrayVar((*[]string)(&f.adds), "add", nil, "ROLE=FILE.pub: a key that somebody else has made; may be repeated")
	c.Flags().StringArrayVar((*[]string)(&f.threshold), "threshold", nil, "ROLE=N: so many must sign (default: more than half of the root keys, 1 of the others)")
	return c
}

func (f *initFlags) run(c *cobra.Command, dir string) (*signed.Envelope, error) {
	if f.fleet == "" {
		return nil, usageError{errors.New("--fleet is missing: the name of the fleet")}
	}
	r := &signed.Root{Fleet: f.fleet, Version: 1, CreatedMs: time.Now().UnixMilli()}
	if err := f.adds.each("add", func(role signed.Role, path string) error { return addKey(r, role, path) }); err != nil {
		return nil, err
	}
	count := map[signed.Role]int{}
	for _, role := range signed.Roles() {
		if r.Of(role).Since = 1; len(r.Of(role).Keys) == 0 {
			count[role] = 1
		}
	}
	if err := f.make.numbers("make", func(role signed.Role, n int) { count[role] = n }); err != nil {
		return nil, err
	}
	paths := []string{filepath.Join(dir, "root.1.json")}
	for _, role := range signed.Roles() {
		for n := range min(count[role], signed.SignaturesMax+1) {
			path := keyPath(dir, role, n)
			paths = append(paths, path, publicPath(path))
		}
	}
	if err := refuseExisting(paths...); err != nil {
		return nil, err
	}
	if err := f.checkCounts(r, count); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	signers, err := makeKeys(r, dir, count)
	if err != nil {
		return nil, err
	}
	payload, err := r.Encode()
	if err != nil {
		return nil, err
	}
	e, err := signed.Seal(c.Context(), signed.TypeRoot, payload, signers...)
	if err != nil {
		return nil, err
	}
	return e, writeDocument(c, paths[0], e)
}

func keyPath(dir string, role signed.Role, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d.key", role, n+1))
}

// checkCounts sets the thresholds, and refuses what no root may have before any file is made.
func (f *initFlags) checkCounts(r *signed.Root, count map[signed.Role]int) error {
	all := map[signed.Role]int{}
	for _, role := range signed.Roles() {
		all[role] = count[role] + len(r.Of(role).Keys)
		r.Of(role).Threshold = 1
	}
	r.Roles.Root.Threshold = all[signed.RoleRoot]/2 + 1
	if err := f.threshold.numbers("threshold", func(role signed.Role, n int) { r.Of(role).Threshold = n }); err != nil {
		return err
	}
	for _, role := range signed.Roles() {
		if n := r.Of(role).Threshold; all[role] < 1 || all[role] > signed.SignaturesMax || n < 1 || n > all[role] {
			return usageError{fmt.Errorf("role %s: %d of %d keys are to sign; want 1 to %d keys, and a threshold of 1 to as many", role, n, all[role], signed.SignaturesMax)}
		}
	}
	// What else may be wrong, such as the fleet's name, a trial with a key of nobody tells.
	trial := &signed.Root{Fleet: r.Fleet, Version: 1, CreatedMs: r.CreatedMs}
	for _, role := range signed.Roles() {
		key, err := signed.NewKey()
		if err != nil {
			return err
		}
		entry := signed.NewRootKey(signed.KeySigner(key).Public(), "")
		trial.Keys = append(trial.Keys, entry)
		*trial.Of(role) = signed.Grant{Keys: []signed.KeyID{entry.ID}, Threshold: 1, Since: 1}
	}
	if _, err := trial.Encode(); err != nil {
		return usageError{err}
	}
	return nil
}

// makeKeys makes the keys, and gives those of the role root.
func makeKeys(r *signed.Root, dir string, count map[signed.Role]int) (signers []signed.Signer, err error) {
	for _, role := range signed.Roles() {
		for n := range count[role] {
			path := keyPath(dir, role, n)
			key, err := makeKey(path)
			if err != nil {
				return nil, err
			}
			r.Keys = append(r.Keys, signed.NewRootKey(key.Public(), holder(path)))
			r.Of(role).Keys = append(r.Of(role).Keys, key.ID())
			if role == signed.RoleRoot {
				signers = append(signers, key)
			}
		}
	}
	return signers, nil
}

// addKey gives a role a key by the file of its public key.
func addKey(r *signed.Root, role signed.Role, path string) error {
	public, err := signed.ReadPublic(path)
	if err != nil {
		return err
	}
	entry := signed.NewRootKey(public, holder(path))
	if has := r.RoleOf(entry.ID); has != "" {
		return fmt.Errorf("the key %s has the role %s already; a key has one role", entry.ID, has)
	}
	r.Keys = append(r.Keys, entry)
	r.Of(role).Keys = append(r.Of(role).Keys, entry.ID)
	return nil
}

// holder is what people call a key: its file without ending.
func holder(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
