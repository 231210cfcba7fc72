//go:build !nocentral

package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// openUploads is the central store of the config.
func openUploads(cfg *config.Config, t Trusted) (Legacy, error) {
	if t.Any == (len(t.Keys) > 0) {
		return nil, errors.New("--key is needed, the key that the device before signed with (weir central key printed it there), or --any-key")
	}
	u := &uploads{timeout: 10 * cfg.Central.Timeout, told: t.Told}
	for _, k := range t.Keys {
		key, err := central.ParsePublic(k)
		if err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		u.trust = append(u.trust, key)
	}
	if t.Identity != "" {
		b, err := os.ReadFile(t.Identity)
		if err == nil {
			u.unseal, err = central.UnsealWith(b)
		}
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
	}
	var err error
	u.bucket, err = offsite.OpenCentral(cfg, nil)
	return u, err
}

// uploads are a Legacy in a central store.
type uploads struct {
	bucket  bucket.Bucket
	trust   central.Trust
	unseal  central.Unseal
	timeout time.Duration
	told    func(done, all uint64)
}

// Look lists the uploads.
func (u *uploads) Look(ctx context.Context, gateway string) error {
	f := &central.Fetcher{Gateway: gateway, Bucket: u.bucket, Trust: u.trust, Timeout: u.timeout}
	all, err := f.List(ctx)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: the central store has nothing of gateway %s", central.ErrNothing, gateway)
	}
	return err
}

// Leave fetches the newest upload of each pipeline that is whole. Of two pipelines with one name, one was made anew: the later counts.
func (u *uploads) Leave(ctx context.Context, gateway, into string) (list []Left, err error) {
	f := &central.Fetcher{Gateway: gateway, Bucket: u.bucket, Trust: u.trust, Unseal: u.unseal, Timeout: u.timeout, Told: u.told}
	all, err := f.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: the central store has nothing of gateway %s", central.ErrNothing, gateway)
	}
	newest := map[string]central.Listed{}
	for _, l := range all {
		if l.Manifest == nil { // its name is in another upload, if in any
			l.Manifest = &central.Manifest{}
		}
		name := l.Manifest.Name
		if name == "" {
			name = "?" + l.UUID.String()
		}
		if n, ok := newest[name]; !ok || laterUpload(l.Manifest, n.Manifest) {
			newest[name] = l
		}
	}
	for _, l := range newest {
		left := u.fetch(ctx, f, l, into)
		if left.Err != nil && !errors.Is(left.Err, central.ErrNothing) && !errors.Is(left.Err, central.ErrEncrypted) {
			return nil, fmt.Errorf("pipeline %s: %w", left.Pipeline, left.Err) // the store did not answer, or this device has no room: nothing is known to be lost
		}
		list = append(list, left)
	}
	slices.SortFunc(list, func(a, b Left) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return list, nil
}

// Records finds what was shipped of a journal.
func (u *uploads) Records(ctx context.Context, gateway, journal string, above uint64) (out Records, err error) {
	f := &central.Fetcher{Gateway: gateway, Bucket: u.bucket, Trust: u.trust, Timeout: u.timeout}
	r, err := f.Records(ctx, journal, above)
	if err != nil {
		return out, err
	}
	out = Records{Last: r.Last, WallMs: r.WallMs, Notes: r.PassedOver}
	out.Each = func(take func(*pipeline.Block, pipeline.Stamp) error) error { return r.Each(ctx, u.unseal, take) }
	return out, nil
}

func laterUpload(a, b *central.Manifest) bool {
	return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor), cmp.Compare(a.CreatedMs, b.CreatedMs), cmp.Compare(a.Serial, b.Serial)) > 0
}

func (u *uploads) fetch(ctx context.Context, f *central.Fetcher, l central.Listed, into string) Left {
	left := Left{Pipeline: l.Manifest.Name}
	left.File = filepath.Join(into, "restored-"+strings.ReplaceAll(cmp.Or(left.Pipeline, l.UUID.String()), plan.PartSeparator, "_")+restore.SavepointSuffix)
	err := os.Remove(left.File) // of the call before
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	var report *offsite.Report
	if err == nil {
		report, err = offsite.FetchKeeping(ctx, f, l.UUID, disk.OS, left.File)
	}
	if err != nil {
		left.Err = err
		return left
	}
	left.Pipeline = report.Head.Pipeline
	var notes []string
	if len(u.trust) == 0 {
		notes = append(notes, "signed by "+report.Key+", which was taken on trust (--any-key)")
	}
	for _, p := range report.PassedOver {
		notes = append(notes, "passed over: "+p.String())
	}
	for _, n := range report.Newer {
		notes = append(notes, fmt.Sprintf("newer in the store: %s; weir central fetch --serial %d fetches it", n, n.Serial))
	}
	left.Note = strings.Join(notes, "; ")
	return left
}
