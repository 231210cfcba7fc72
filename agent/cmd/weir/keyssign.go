//go:build !nocentral

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// keysSignFlags say what is signed.
type keysSignFlags struct {
	sign  signFlags
	roots []string
	typ   string
	to    string
}

func keysSignCommand(o *options) *cobra.Command {
	f := &keysSignFlags{}
	c := &cobra.Command{
		Use: "sign FILE", Short: "Add signatures to a document", Args: usageArgs(cobra.ExactArgs(1)),
		Long: `Adds the signatures of the given keys to the envelope in FILE, and says what it is and what is missing; read that before you pass it on. Several holders sign one after the other. With --type FILE
is the document itself, and the envelope is written to --to. With --root only keys that the document's role has can sign.`,
		Example: "  weir keys sign root.2.json --root root.1.json --key root-2.key\n  weir keys sign release.json --root root.1.json --sign-with 'hsm sign release' --public release-1.pub",
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(o, c, args[0])
		},
	}
	c.Flags().StringArrayVar(&f.roots, "root", nil, "the root document that is in force; a chain: repeated, in order")
	c.Flags().StringVar(&f.typ, "type", "", "FILE is a document without envelope, of this type: root, release, rollout, commands")
	c.Flags().StringVar(&f.to, "to", "", "write the envelope there (default: FILE)")
	f.sign.add(c)
	return c
}

func (f *keysSignFlags) run(o *options, c *cobra.Command, path string) error {
	signers, err := f.sign.signers(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	if len(signers) == 0 {
		return usageError{errors.New("no key: give --key, or --sign-with and --public")}
	}
	trust, err := readTrust(c.Context(), f.roots)
	if err != nil {
		return err
	}
	e, to, err := f.open(c, path)
	if err != nil {
		return err
	}
	if _, err := describe(e); err != nil { // nobody is to sign what no gateway would take
		return fmt.Errorf("%s: %w", path, err)
	}
	may, err := f.may(e, trust)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if may == nil {
		fmt.Fprintln(c.ErrOrStderr(), "no --root: whether these keys count is not checked")
		may = func(signed.KeyID) error { return nil }
	}
	if err := signAll(c.Context(), e, signers, may); err != nil {
		return err
	}
	if err := writeDocument(c, to, e); err != nil {
		return err
	}
	return o.tell(c, inspect(to, e, trust))
}

// open reads the envelope, or makes one, and says where it is written.
func (f *keysSignFlags) open(c *cobra.Command, path string) (*signed.Envelope, string, error) {
	if f.typ == "" {
		e, _, err := readEnvelope(c.Context(), path)
		if f.to == "" {
			return e, path, err
		}
		return e, f.to, err
	}
	if f.to == "" {
		return nil, "", usageError{errors.New("--type needs --to: the document stays as it is, its envelope is another file")}
	}
	if role := signed.RoleOf(f.typ); role == "" || role == signed.RoleDevice {
		return nil, "", usageError{fmt.Errorf("--type %q: want root, release, rollout or commands", f.typ)}
	}
	if err := refuseExisting(f.to); err != nil {
		return nil, "", err
	}
	payload, err := readSmall(c.Context(), path)
	if err != nil {
		return nil, "", usageError{err}
	}
	e, err := signed.Seal(c.Context(), f.typ, payload)
	return e, f.to, err
}

// may tells which keys' signatures count; nil: that cannot be told.
func (f *keysSignFlags) may(e *signed.Envelope, trust *signed.Trust) (func(signed.KeyID) error, error) {
	var roots []*signed.Root
	if trust != nil {
		roots = append(roots, trust.Root())
	}
	if e.Type == signed.TypeRoot {
		own, err := signed.DecodeRoot(e.Payload)
		if err != nil {
			return nil, err
		}
		roots = append(roots, own)
	}
	if len(roots) == 0 {
		return nil, nil
	}
	return maySign(e.Type, roots...), nil
}

// described is what a document says, for people.
type described struct {
	fleet   string
	text    string
	created int64
}

// describe reads the payload, strictly.
func describe(e *signed.Envelope) (d described, err error) {
	switch e.Type {
	case signed.TypeRoot:
		r, err := signed.DecodeRoot(e.Payload)
		if err != nil {
			return d, err
		}
		return described{r.Fleet, fmt.Sprintf("root %d", r.Version), r.CreatedMs}, nil
	case signed.TypeRelease:
		r, err := document.DecodeRelease(e.Payload)
		if err != nil {
			return d, err
		}
		return described{r.Fleet, fmt.Sprintf("release %s, secure version %d, %d artifacts", r.Version, r.SecureVersion, len(r.Artifacts)), r.CreatedMs}, nil
	case signed.TypeRollout:
		r, err := document.DecodeRollout(e.Payload)
		if err != nil {
			return d, err
		}
		halted := ""
		if r.Halted {
			halted = ", halted"
		}
		return described{r.Fleet, fmt.Sprintf("roll-out %s in channel %s, serial %d: release %s for %d of a thousand%s", r.ID, r.Channel, r.Serial, r.Release, r.Permille, halted), r.CreatedMs}, nil
	case signed.TypeCommands:
		r, err := document.DecodeCommands(e.Payload)
		if err != nil {
			return d, err
		}
		return described{r.Fleet, fmt.Sprintf("commands for %s, serial %d: %s", r.Scope, r.Serial, verbs(r.List)), r.CreatedMs}, nil
	}
	return d, fmt.Errorf("a document of the type %s is signed by a gateway, not with a key of the fleet", e.Type)
}

func verbs(list []document.Command) string {
	if len(list) == 0 {
		return "none"
	}
	newest := list[len(list)-1]
	return fmt.Sprintf("%d, the newest %s (%s)", len(list), newest.Do, newest.ID)
}
