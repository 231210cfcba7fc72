//go:build !nocentral

package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
)

// errAttention: what was asked has been done, and the roll-out waits for somebody.
var errAttention = errors.New("somebody has to act")

// exitAttention is the code for it.
const exitAttention = 10

// rootDefault is the root document that a gateway is given; an operator's machine may have it there too.
const rootDefault = "/etc/weir/fleet/root.json"

// keysDefault has the keys of gateways, on an operator's machine that has pinned them.
const keysDefault = "/etc/weir/fleet/device-keys"

func fleetCommand(o *options) *cobra.Command {
	f := &fleetFlags{options: o}
	c := &cobra.Command{
		Use: "fleet", Short: "Roll out, halt, command and watch the gateways of a fleet, through the central store",
		Long: `No server of ours: these commands read and write signed documents in the central store (docs/fleet.md), which is named by --store, or by section central of the config. They show what they
are about to do, and ask, unless --yes. Exit code 10: the roll-out waits for somebody, because it is halted, because time alone will not bring it on, or because no key was given to sign what is to be done.`,
	}
	f.add(c)
	c.AddCommand(fleetStatusCommand(f), fleetDevicesCommand(f), fleetRolloutCommand(f), fleetHaltCommand(f), fleetResumeCommand(f), fleetReconcileCommand(f), fleetSavepointCommand(f),
		fleetCommandCommand(f), fleetResultsCommand(f), fleetRootCommand(f), fleetPublishCommand(f))
	return c
}

// fleetFlags say where the fleet's store is, whom to trust, and who signs.
type fleetFlags struct {
	*options
	store, endpoint, region, credentials, ca string
	roots                                    []string
	channel                                  string
	deviceKeys, keysDefault                  string
	yes                                      bool
	sign                                     signFlags
}

func (f *fleetFlags) add(c *cobra.Command) {
	p := c.PersistentFlags()
	p.StringVar(&f.store, "store", "", "the central store: file:///PATH or s3://BUCKET/PREFIX (default: that of the config)")
	p.StringVar(&f.endpoint, "endpoint", "", "of an S3 store: https://HOST")
	p.StringVar(&f.region, "region", "", "of an S3 store")
	p.StringVar(&f.credentials, "credentials-file", "", "of an S3 store: as ~/.aws/credentials")
	p.StringVar(&f.ca, "ca", "", "of an S3 store: file with the certificate of its CA")
	p.StringArrayVar(&f.roots, "root", nil, "the root document that is believed; a chain: repeated, in order (default "+rootDefault+"). Later ones are read from the store")
	p.StringVar(&f.channel, "channel", "stable", "the channel whose gateways are meant")
	f.keysDefault = keysDefault
	p.StringVar(&f.deviceKeys, "device-keys", "default", "file with lines GATEWAY ed25519:KEY: reports of these gateways count only when their key has signed them; default: "+keysDefault+" where it is there, none: no keys")
	p.BoolVar(&f.yes, "yes", false, "do not ask")
}

// signs adds the flags of those commands that sign.
func (f *fleetFlags) signs(c *cobra.Command) *cobra.Command {
	f.sign.add(c)
	return c
}

// fleet is a store and whom to trust in it.
type fleet struct {
	depot.Depot
	trust   *signed.Trust
	channel string
	reader  *depot.Reader
}

func (f *fleetFlags) open(c *cobra.Command) (*fleet, error) {
	if err := strict.Name(f.channel); err != nil {
		return nil, usageError{fmt.Errorf("--channel: %w", err)}
	}
	b, err := f.bucket()
	if err != nil {
		return nil, usageError{err}
	}
	trust, err := f.believed(c.Context())
	if err != nil {
		return nil, err
	}
	keys, err := f.readKeys(c.Context())
	if err != nil {
		return nil, usageError{err}
	}
	d := depot.Depot{Bucket: b}
	refused, err := d.Advance(c.Context(), trust, func(uint64, []byte) error { return nil })
	switch {
	case refused != nil || errors.Is(err, bucket.ErrTooLarge): // no gateway takes it: whoever put it there must not keep an operator from halting
		fmt.Fprintf(c.ErrOrStderr(), "warning: %s in the store is no root document that counts, for no gateway either; somebody has put it there: see weir keys verify, and remove it (%v)\n", depot.Root(trust.Version()+1), err)
	case err != nil:
		return nil, fmt.Errorf("the chain of root documents in the store: %w", err)
	}
	return &fleet{Depot: d, trust: trust, channel: f.channel, reader: &depot.Reader{Depot: d, Keys: keys}}, nil
}

// believed is the chain of roots that --root names, or the one that gateways have.
func (f *fleetFlags) believed(ctx context.Context) (*signed.Trust, error) {
	roots := f.roots
	if len(roots) == 0 {
		roots = []string{rootDefault}
	}
	trust, err := readTrust(ctx, roots)
	if len(f.roots) == 0 && errors.Is(err, fs.ErrNotExist) {
		err = usageError{fmt.Errorf("no --root, and no %s: nothing says whose signatures count", rootDefault)}
	}
	return trust, err
}

// bucket is the store by flags, else by the config.
func (f *fleetFlags) bucket() (bucket.Bucket, error) {
	if f.store == "" {
		cfg, err := config.Load(f.config)
		if err != nil {
			return nil, fmt.Errorf("no --store, and no config that has one: %w", err)
		}
		return offsite.OpenCentral(cfg, nil)
	}
	u, err := url.Parse(f.store)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--store: %w", err)
	case u.User != nil:
		return nil, errors.New("--store holds a user name or password; use --credentials-file")
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/") && u.Path != "/":
		return bucket.OpenDirectory(u.Path), nil
	case u.Scheme == "s3" && u.Host != "":
		return bucket.OpenS3(&bucket.S3{Endpoint: f.endpoint, Region: f.region, Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), CredentialsFile: f.credentials, CAFile: f.ca, DialTimeout: 30 * time.Second})
	}
	return nil, fmt.Errorf("--store %q: want file:///PATH or s3://BUCKET/PREFIX", f.store)
}

// signers are those of the flags; none is an error.
func (f *fleetFlags) signers(c *cobra.Command) ([]signed.Signer, error) {
	list, err := f.sign.signers(c.Context(), c.ErrOrStderr())
	if err == nil && len(list) == 0 {
		err = usageError{errors.New("no key: give --key, or --sign-with and --public")}
	}
	return list, err
}

// seal signs, by keys that have the document's role.
func (fl *fleet) seal(ctx context.Context, typ string, payload []byte, by []signed.Signer) (*signed.Envelope, error) {
	e, err := signed.Seal(ctx, typ, payload)
	if err != nil {
		return nil, err
	}
	return e, signAll(ctx, e, by, maySign(typ, fl.trust.Root()))
}

// confirm asks. Who cannot be asked has to say --yes.
func (f *fleetFlags) confirm(c *cobra.Command, question string) error {
	if f.yes {
		return nil
	}
	in, is := c.InOrStdin().(*os.File)
	if is {
		_, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
		is = err == nil
	}
	if !is {
		return usageError{errors.New("nothing was done: nobody can be asked here; give --yes")}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", question)
	line, err := bufio.NewReader(heard(c.Context(), in)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return usageError{errors.New("nothing was done")}
}

// tellJSON or text.
func (f *fleetFlags) say(c *cobra.Command, v any, text func()) error {
	if f.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(v)
	}
	text()
	return nil
}

// clock is the store's, as exact as this key may ask: who may not write takes the newest time that a list has shown.
func (fl *fleet) clock(c *cobra.Command, newest int64) int64 {
	now, err := fl.Now(c.Context())
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "warning: the store's clock is not known (%v): silence is judged by the newest report\n", err)
		return newest
	}
	return now
}

// readKeys are the keys that were named, or those that lie where such keys do. The file that was named has to be there.
func (f *fleetFlags) readKeys(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	switch f.deviceKeys {
	case "", "none":
		return readDeviceKeys(ctx, "")
	case "default":
		keys, err := readDeviceKeys(ctx, f.keysDefault)
		if errors.Is(err, fs.ErrNotExist) {
			return readDeviceKeys(ctx, "")
		}
		return keys, err
	}
	return readDeviceKeys(ctx, f.deviceKeys)
}

// deviceKeysMost is room for half a million gateways.
const deviceKeysMost = 64 << 20

// readDeviceKeys reads lines GATEWAY ed25519:KEY. The key is behind the last space: names may have some.
func readDeviceKeys(ctx context.Context, path string) (map[string]ed25519.PublicKey, error) {
	keys := map[string]ed25519.PublicKey{}
	if path == "" {
		return keys, nil
	}
	b, err := readUpTo(ctx, path, deviceKeysMost)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			return nil, fmt.Errorf("%s:%d: want GATEWAY ed25519:KEY", path, i+1)
		}
		key, err := signed.ParsePublic([]byte(line[cut+1:]))
		gateway := strings.TrimSpace(line[:cut])
		if err == nil {
			err = strict.Name(gateway)
		}
		if err == nil && keys[gateway] != nil {
			err = fmt.Errorf("%s is there twice", gateway)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		keys[gateway] = key
	}
	return keys, nil
}

// warnClock tells when what is signed would have a time that others take for wrong: gateways raise their clock's floor by it.
func warnClock(c *cobra.Command, storeMs int64) {
	if off := time.Since(time.UnixMilli(storeMs)).Round(time.Second); off.Abs() > 5*time.Minute {
		fmt.Fprintf(c.ErrOrStderr(), "warning: this machine's clock and the store's differ by %s; documents carry this machine's\n", off)
	}
}

func fleetRootCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "root ROOT.json...", Short: "Publish the next root documents", Args: usageArgs(cobra.MinimumNArgs(1)),
		Long: "Puts root documents, signed by weir keys rotate, where gateways find them. Each must follow the one before; the first, the root that --root names.",
		RunE: func(c *cobra.Command, args []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			for _, path := range args { // one line of JSON for each
				_, b, err := readEnvelope(c.Context(), path)
				if err != nil {
					return err
				}
				if err := fl.PublishRoot(c.Context(), fl.trust, b); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				told := map[string]uint64{"root": fl.trust.Version()}
				if err := f.say(c, told, func() {
					fmt.Fprintf(c.OutOrStdout(), "root %d is published: gateways take it at their next poll\n", told["root"])
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// fleetPublishCommand is for documents that several holders have signed, one after the other.
func fleetPublishCommand(f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "publish FILE", Short: "Publish a roll-out or commands that others have signed", Args: usageArgs(cobra.ExactArgs(1)),
		Long: "Where several must sign, weir fleet rollout and command write the document with --to, weir keys sign adds signatures, and this publishes it.",
		RunE: func(c *cobra.Command, args []string) error {
			fl, err := f.open(c)
			if err != nil {
				return err
			}
			e, _, err := readEnvelope(c.Context(), args[0])
			if err != nil {
				return err
			}
			d, err := describe(e)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), d.text)
			if err := f.confirm(c, "Publish it?"); err != nil {
				return err
			}
			if err := fl.publish(c.Context(), e); err != nil {
				return err
			}
			return f.say(c, map[string]string{"published": d.text}, func() { fmt.Fprintf(c.OutOrStdout(), "published: %s\n", d.text) })
		},
	}
}

func (fl *fleet) publish(ctx context.Context, e *signed.Envelope) error {
	switch e.Type {
	case signed.TypeRollout:
		r, err := document.DecodeRollout(e.Payload)
		if err != nil {
			return err
		}
		before, _, err := fl.CurrentRollout(ctx, fl.trust, r.Channel)
		if err != nil {
			return err
		}
		return fl.PublishRollout(ctx, fl.trust, r.Channel, before, e)
	case signed.TypeCommands:
		list, err := document.DecodeCommands(e.Payload)
		if err != nil {
			return err
		}
		before, was, err := fl.CurrentCommands(ctx, fl.trust, list.Scope)
		if err == nil && was != nil && list.Serial <= was.Serial {
			err = fmt.Errorf("nothing was published: serial %d behind %d", list.Serial, was.Serial)
		}
		if err != nil {
			return err
		}
		return fl.PublishCommands(ctx, fl.trust, before, e)
	case signed.TypeRelease:
		_, err := fl.PublishRelease(ctx, fl.trust, e)
		return err
	}
	return usageError{fmt.Errorf("a document of the type %s is not published so", e.Type)}
}
