//go:build !nocentral

package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

func keysCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "keys", Short: "Make, rotate and use the keys that a fleet trusts; verify what they have signed",
		Long: `A fleet's gateways act on signed documents only (docs/keys.md, docs/security.md). The root document says which keys count for what. These commands need no agent, no config and no
network: they read and write the files that are named, and so can be used on a machine that is offline.`,
	}
	c.AddCommand(keysInitCommand(o), keysNewCommand(), keysSignCommand(o), keysRotateCommand(o), keysVerifyCommand(o))
	return c
}

// signFlags are the keys to sign with.
type signFlags struct {
	keys   []string
	with   string
	public string
}

func (f *signFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.keys, "key", nil, "file of a private key to sign with; may be repeated")
	c.Flags().StringVar(&f.with, "sign-with", "", "command that signs, for a key that is in no file: it gets the bytes on its input and prints the signature in base64")
	c.Flags().StringVar(&f.public, "public", "", "file of the public key that --sign-with signs with")
}

// signers reads the keys; say is where the command of --sign-with may ask.
func (f *signFlags) signers(ctx context.Context, say io.Writer) (list []signed.Signer, err error) {
	if (f.with == "") != (f.public == "") {
		return nil, usageError{errors.New("--sign-with and --public: both or none")}
	}
	for _, path := range f.keys {
		key, err := await(ctx, func() (ed25519.PrivateKey, error) { return signed.ReadPrivate(path) })
		if err != nil {
			return nil, usageError{err}
		}
		list = append(list, signed.KeySigner(key))
	}
	if f.with != "" {
		key, err := await(ctx, func() (ed25519.PublicKey, error) { return signed.ReadPublic(f.public) })
		if err != nil {
			return nil, usageError{err}
		}
		list = append(list, &signed.Command{Line: f.with, Key: key, Say: say})
	}
	return list, nil
}

// perRole are flags of the form ROLE=VALUE.
type perRole []string

// each gives role and value of every one.
func (p perRole) each(flag string, do func(role signed.Role, value string) error) error {
	for _, text := range p {
		role, value, is := strings.Cut(text, "=")
		if !is || value == "" || !slices.Contains(signed.Roles(), signed.Role(role)) {
			return usageError{fmt.Errorf("--%s %q: want ROLE=VALUE, with root, release or deploy as the role", flag, text)}
		}
		if err := do(signed.Role(role), value); err != nil {
			return usageError{fmt.Errorf("--%s %s: %w", flag, text, err)}
		}
	}
	return nil
}

// numbers reads ROLE=N.
func (p perRole) numbers(flag string, do func(role signed.Role, n int)) error {
	return p.each(flag, func(role signed.Role, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return errors.New("want a number")
		}
		do(role, n)
		return nil
	})
}

// readEnvelope reads a file that holds one.
func readEnvelope(ctx context.Context, path string) (*signed.Envelope, []byte, error) {
	b, err := readSmall(ctx, path)
	if err != nil {
		return nil, nil, usageError{err}
	}
	e, err := signed.Parse(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, b, nil
}

// readTrust walks a chain of roots, the first of which is believed.
func readTrust(ctx context.Context, paths []string) (*signed.Trust, error) {
	var t *signed.Trust
	for i, path := range paths {
		b, err := readSmall(ctx, path)
		if err != nil {
			return nil, usageError{err}
		}
		if i == 0 {
			t, err = signed.NewTrust(b)
		} else {
			err = t.Advance(b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return t, nil
}

// refuseExisting keeps what is there, and says so before anything is made.
func refuseExisting(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return usageError{fmt.Errorf("%s is there already; nothing was written", path)}
		}
	}
	return nil
}

// makeKey makes a key and writes both its files. None of them may be there.
func makeKey(path string) (signed.KeySigner, error) {
	key, err := signed.NewKey()
	if err != nil {
		return nil, err
	}
	s := signed.KeySigner(key)
	if err := writeNew(path, signed.FormatPrivate(key), 0o600); err != nil {
		return nil, err
	}
	return s, writeNew(publicPath(path), signed.FormatPublic(s.Public()), 0o644)
}

// publicPath is where the public key lies beside the private one.
func publicPath(path string) string { return strings.TrimSuffix(path, ".key") + ".pub" }

func writeNew(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return disk.OS.SyncDir(filepath.Dir(path))
}

// signAll adds the signatures of all, each of whose keys has to be one that may sign.
func signAll(ctx context.Context, e *signed.Envelope, by []signed.Signer, may func(signed.KeyID) error) error {
	for _, s := range by {
		if err := may(s.ID()); err != nil {
			return usageError{err}
		}
	}
	for _, s := range by {
		if err := e.Add(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func keysNewCommand() *cobra.Command {
	return &cobra.Command{
		Use: "new FILE.key", Short: "Make a key: FILE.key is the private one, FILE.pub the public one, for --add", Args: usageArgs(cobra.ExactArgs(1)),
		Long: "For whoever is to hold a key and shows nobody but the public one. openssl genpkey -algorithm ed25519 makes the same file.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := refuseExisting(args[0], publicPath(args[0])); err != nil {
				return err
			}
			key, err := makeKey(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: key %s; keep it secret, and a copy of it elsewhere\n%s: give this one away\n", args[0], key.ID(), publicPath(args[0]))
			return nil
		},
	}
}
