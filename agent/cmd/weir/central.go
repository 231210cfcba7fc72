//go:build !nocentral

package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
)

func centralCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "central", Short: "List, verify, fetch and remove the checkpoints that are kept off the device",
		Long: `The config's section central says where they are (docs/central.md). These commands ask the store, not the agent: they work on any machine that has a config with
that section and the store's credentials.`,
	}
	c.AddCommand(centralListCommand(o), centralVerifyCommand(o), centralFetchCommand(o), centralRemoveCommand(o), centralKeyCommand(o))
	return c
}

// centralFlags say what of the store is read, and who is trusted.
type centralFlags struct {
	gateway  string
	keys     []string
	anyKey   bool
	identity string
	least    uint64
}

func (f *centralFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.gateway, "gateway", "", "the gateway whose checkpoints they are (default: that of the config, or of state_dir)")
	c.Flags().StringArrayVar(&f.keys, "key", nil, "public key whose signatures are trusted, as weir central key prints it; may be repeated (default: that of this device)")
	c.Flags().BoolVar(&f.anyKey, "any-key", false, "trust whoever may write to the store: signatures are checked, whose they are is not")
	c.Flags().StringVar(&f.identity, "identity", "", "file with the private key (age) of what is encrypted")
	c.Flags().Uint64Var(&f.least, "serial", 0, "refuse uploads below this number")
}

// open gives a fetcher by config and flags.
func (f *centralFlags) open(ctx context.Context, o *options) (*central.Fetcher, *config.Config, error) {
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, nil, usageError{err}
	}
	b, err := offsite.OpenCentral(cfg, nil)
	if err != nil {
		return nil, nil, usageError{err}
	}
	out := &central.Fetcher{Gateway: f.gateway, Bucket: b, Timeout: 10 * cfg.Central.Timeout, Least: f.least}
	own := f.gateway == ""
	if own {
		if out.Gateway, err = statedir.GatewayOf(cfg); err != nil {
			return nil, nil, usageError{err}
		}
	}
	for _, k := range f.keys {
		key, err := central.ParsePublic(k)
		if err != nil {
			return nil, nil, usageError{err}
		}
		out.Trust = append(out.Trust, key)
	}
	switch {
	case f.anyKey && len(f.keys) > 0:
		return nil, nil, usageError{errors.New("--any-key and --key: one of them")}
	case f.anyKey || len(f.keys) > 0:
	case !own:
		return nil, nil, usageError{errors.New("--gateway needs --key, the key that the other device signed with (weir central key prints it there), or --any-key")}
	default:
		key, err := offsite.SigningKey(cfg)
		if err != nil {
			return nil, nil, err
		}
		out.Trust = central.Trust{key.Public().(ed25519.PublicKey)}
	}
	if f.identity != "" {
		b, err := readSmall(ctx, f.identity)
		if err != nil {
			return nil, nil, usageError{err}
		}
		if out.Unseal, err = central.UnsealWith(b); err != nil {
			return nil, nil, usageError{err}
		}
	}
	return out, cfg, nil
}

// list gives the uploads, too.
func (f *centralFlags) list(ctx context.Context, o *options) (*central.Fetcher, *config.Config, []central.Listed, error) {
	fetcher, cfg, err := f.open(ctx, o)
	if err != nil {
		return nil, nil, nil, err
	}
	list, err := fetcher.List(ctx)
	return fetcher, cfg, list, err
}

func centralKeyCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key of this device's uploads, which a restore elsewhere trusts by --key", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			key, err := offsite.SigningKey(cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), central.FormatPublic(key.Public().(ed25519.PublicKey)))
			return err
		},
	}
}

// centralRow is a line of weir central ls.
type centralRow struct {
	Pipeline    string    `json:"pipeline"`
	UUID        string    `json:"uuid"`
	Serial      uint64    `json:"serial"`
	Incarnation string    `json:"incarnation"`
	Checkpoint  uint64    `json:"checkpoint"`
	Position    uint64    `json:"position"`
	Time        time.Time `json:"time"`
	Bytes       uint64    `json:"bytes"`
	Journal     string    `json:"journal,omitempty"`
	// Shipped is the last record that was shipped behind it, 0 when none was, and ShippedBytes what those behind it have.
	Shipped      uint64 `json:"shipped,omitempty"`
	ShippedBytes uint64 `json:"shipped_bytes,omitempty"`
	Key          string `json:"key,omitempty"`
	Error        string `json:"error,omitempty"`
}

func centralListCommand(o *options) *cobra.Command {
	f := &centralFlags{}
	c := &cobra.Command{
		Use: "ls", Short: "List the newest upload of each pipeline; its signature is checked, its pieces are not read", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			fetcher, _, list, err := f.list(c.Context(), o)
			if err != nil {
				return err
			}
			shipped, err := fetcher.Shipped(c.Context())
			if err != nil {
				return err
			}
			journals := journalsOf(shipped)
			rows, bad := []centralRow{}, []error{}
			for _, l := range list {
				r := centralRow{UUID: l.UUID.String(), Serial: l.Head.Serial, Incarnation: l.Head.Incarnation, Position: l.Head.Position, Time: time.UnixMilli(l.Head.WallMs).UTC()}
				if m := l.Manifest; m != nil {
					r.Pipeline, r.Checkpoint, r.Bytes, r.Key, r.Journal = m.Name, m.Checkpoint, m.BaseBytes+m.DeltaBytes, central.FormatPublic(l.Key), m.Journal
					if n, bytes := journals[m.Journal].Above(m.Position); n > 0 {
						r.Shipped, r.ShippedBytes = journals[m.Journal].Last, bytes
					}
				}
				if l.Err != nil {
					r.Error = l.Err.Error()
					bad = append(bad, fmt.Errorf("pipeline %s: %w", l.UUID, l.Err))
				}
				rows = append(rows, r)
			}
			slices.SortFunc(rows, func(a, b centralRow) int {
				return slices.Compare([]string{a.Pipeline, a.UUID}, []string{b.Pipeline, b.UUID})
			})
			tellStray(c.ErrOrStderr(), shipped, list)
			return errors.Join(append([]error{printUploads(c.OutOrStdout(), rows, o.output)}, bad...)...)
		},
	}
	f.add(c)
	return c
}

func printUploads(w io.Writer, rows []centralRow, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(rows)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PIPELINE\tUPLOAD\tINCARNATION\tCHECKPOINT\tPOSITION\tSHIPPED TO\tTIME\tBYTES\tUUID")
	for _, r := range rows {
		shipped := "-"
		if r.Shipped > 0 {
			shipped = strconv.FormatUint(r.Shipped, 10)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%d\t%s\n", r.Pipeline, r.Serial, r.Incarnation, r.Checkpoint, r.Position, shipped, r.Time.Format(time.RFC3339), r.Bytes, r.UUID)
	}
	return t.Flush()
}

// uploadsOf are the uploads of the named pipelines, by name or UUID; no names: all.
func uploadsOf(list []central.Listed, names []string) (some []central.Listed, err error) {
	found := map[string]bool{}
	for _, l := range list {
		name := ""
		if l.Manifest != nil {
			name = l.Manifest.Name
		}
		for _, n := range names {
			if n == name || n == l.UUID.String() {
				found[n] = true
				some = append(some, l)
			}
		}
	}
	if len(names) == 0 {
		return list, nil
	}
	for _, n := range names {
		if !found[n] {
			err = errors.Join(err, fmt.Errorf("pipeline %s: %w%s", n, central.ErrNothing, nameless(list)))
		}
	}
	return some, err
}

// nameless tells of uploads whose newest manifest, in which the name is, cannot be read or is not trusted: the pipeline that is asked for may be among them.
func nameless(list []central.Listed) string {
	var b strings.Builder
	for _, l := range list {
		if l.Manifest == nil {
			fmt.Fprintf(&b, "\n  not known is the name of %s: %v", l.UUID, l.Err)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n  an older upload of it may be whole: give the UUID in place of the name")
	}
	return b.String()
}

// uploadOf is the upload of one pipeline, by name or UUID.
func uploadOf(list []central.Listed, name string) (*central.Listed, error) {
	some, err := uploadsOf(list, []string{name})
	if err != nil {
		return nil, err
	}
	if len(some) > 1 {
		return nil, usageError{fmt.Errorf("%d pipelines are called %s: give the UUID, see weir central ls", len(some), name)}
	}
	return &some[0], nil
}

func centralVerifyCommand(o *options) *cobra.Command {
	f := &centralFlags{}
	c := &cobra.Command{
		Use: "verify [PIPELINE...]", Short: "Read every byte of the newest uploads, and of the records that were shipped behind them, and check them",
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(c *cobra.Command, args []string) error {
			fetcher, _, list, err := f.list(c.Context(), o)
			if err != nil {
				return err
			}
			var verified []*offsite.Report
			some, err := uploadsOf(list, args)
			for _, l := range some {
				r, e := verifyUpload(o, c, fetcher, l)
				if err = errors.Join(err, e); r != nil {
					verified = append(verified, r)
				}
			}
			return errors.Join(err, verifyRecords(c.Context(), c.OutOrStdout(), fetcher, verified))
		},
	}
	f.add(c)
	return c
}

// verifyUpload fetches an upload into a directory that goes away. nil: none could be fetched.
func verifyUpload(o *options, c *cobra.Command, f *central.Fetcher, l central.Listed) (*offsite.Report, error) {
	dir, err := os.MkdirTemp("", "weir-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	stop := o.showFetch(c, f)
	r, err := offsite.Fetch(c.Context(), f, l.UUID, disk.OS, filepath.Join(dir, "upload"+restore.SavepointSuffix))
	stop()
	if err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", l.UUID, err)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: upload %d is whole: position %d of %s, %d entries, %d results, %d bytes\n", r.Head.Pipeline, r.Upload.Serial, r.Head.Position,
		time.UnixMilli(r.Head.CreatedMs).UTC().Format(time.RFC3339), r.Summary.Entries, r.Summary.Results, r.Bytes)
	for _, n := range r.Newer {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", r.Head.Pipeline, n)
	}
	return r, passedOver(r)
}

// passedOver is what is lost, as an error.
func passedOver(r *offsite.Report) (err error) {
	for _, p := range r.PassedOver {
		err = errors.Join(err, fmt.Errorf("%s: passed over: %s", r.Head.Pipeline, p))
	}
	return err
}

func centralFetchCommand(o *options) *cobra.Command {
	f := &centralFlags{}
	out := ""
	c := &cobra.Command{
		Use: "fetch PIPELINE", Short: "Make a savepoint file of the newest upload of a pipeline that is whole",
		Long: `The file is whole or absent; a fetch that broke goes on where it was. Newer uploads that cannot be read are told: what they had is lost. weir savepoint
inspect and restore take the file.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			fetcher, cfg, list, err := f.list(c.Context(), o)
			if err != nil {
				return err
			}
			upload, err := uploadOf(list, args[0])
			if err != nil {
				return err
			}
			if out == "" {
				out = filepath.Join(restore.SavepointDir(cfg), fmt.Sprintf("central-%s-%d%s", upload.UUID, upload.Head.Serial, restore.SavepointSuffix))
			}
			if out, err = filepath.Abs(out); err != nil {
				return err
			}
			stop := o.showFetch(c, fetcher)
			r, err := offsite.Fetch(c.Context(), fetcher, upload.UUID, disk.OS, out)
			stop()
			if err != nil {
				return err
			}
			if lost := passedOver(r); lost != nil { // it was fetched all the same
				fmt.Fprintln(c.ErrOrStderr(), lost)
			}
			for _, n := range r.Newer {
				fmt.Fprintf(c.ErrOrStderr(), "%s: %s; --serial %d fetches it\n", r.Head.Pipeline, n, n.Serial)
			}
			return o.printSavepoints(c, []api.SavepointInfo{restore.SavepointInfo(out, &r.Head, r.Summary)})
		},
	}
	c.Flags().StringVar(&out, "out", "", "the file (default central-UUID-UPLOAD.savepoint in state_dir/savepoints)")
	f.add(c)
	return c
}
