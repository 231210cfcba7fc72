//go:build !nocentral

package agent

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/uplink/central"
)

// centralBench is a bench with a central store in a directory.
func centralBench(t *testing.T, pipelines string) *bench {
	b := newBench(t, pipelines)
	b.text += fmt.Sprintf("central: {url: \"file://%s/central\", interval: 1s}\n", b.dir)
	return b
}

// uploaded waits until all up to a position is in the central store.
func (b *bench) uploaded(position uint64) *api.CentralStatus {
	b.t.Helper()
	s := b.await(fmt.Sprintf("upload of position %d", position), func(s *api.Status) bool {
		return at(position)(s) && s.Pipelines[0].Central.Position >= position && s.Pipelines[0].Central.Pending == 0
	})
	return s.Pipelines[0].Central
}

// fetch is what a device that has only the store and the public key makes.
func (b *bench) fetch(file string) *offsite.Report {
	b.t.Helper()
	cfg := b.parse()
	bucket, err := offsite.OpenCentral(cfg, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := offsite.SigningKey(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	f := &central.Fetcher{Gateway: "test", Bucket: bucket, Trust: central.Trust{key.Public().(ed25519.PublicKey)}}
	list, err := f.List(b.t.Context())
	if err != nil || len(list) != 1 || list[0].Err != nil || list[0].Manifest.Name != "p" {
		b.t.Fatalf("%+v, %v", list, err)
	}
	r, err := offsite.Fetch(b.t.Context(), f, list[0].UUID, disk.OS, file)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(r.PassedOver) > 0 {
		b.t.Fatalf("passed over %v", r.PassedOver)
	}
	if _, err := os.Stat(file + ".parts"); !os.IsNotExist(err) {
		b.t.Errorf("the parts are still there: %v", err)
	}
	return r
}

// savepointText is the state that a savepoint has: not when and by which checkpoint it was made, and not what upstream held by then.
func savepointText(t *testing.T, file string) string {
	t.Helper()
	f, err := restore.ReadSavepoint(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out strings.Builder
	h := f.Head
	fmt.Fprintf(&out, "%s %s %x %s position %d generation %d %x\n%s\n%+v\n", h.Gateway, h.Pipeline, h.UUID, h.Journal, h.Position, h.Generation, h.PlanHash, h.Plan, h.Steps)
	tables := map[string]string{}
	for _, s := range h.Tables {
		text := fmt.Sprintf("%+v\n", s)
		if _, _, err := f.Entries(s.UID, s.Name, func(key, sub, val []byte) error {
			text += fmt.Sprintf("  %x %x %x\n", key, sub, val)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		tables[s.UID+"/"+s.Name] = text
	}
	fmt.Fprint(&out, tables)
	for _, s := range h.Sinks { // what upstream holds meanwhile is another matter
		fmt.Fprintf(&out, "%s %d %d %x\n", s.UID, s.Generation, s.Seq, s.Chain)
	}
	return out.String()
}

// TestCentralStoreHoldsTheState: what is fetched is what a savepoint of the same instant holds, for every backend and checkpoint store, with results that upstream does not hold, through a
// restart; and a pipeline goes on from it as from any savepoint.
func TestCentralStoreHoldsTheState(t *testing.T) {
	all := []string{pipelineNamed("p", "log"), pipelineNamed("p", "bbolt")}
	if pebblekv.Built {
		all = append(all, strings.Replace(pipelineNamed("p", "pebble"), "    steps:", "    state: {backend: pebble, memory: 4MiB}\n    steps:", 1))
	}
	for _, pipelines := range all {
		b := centralBench(t, pipelines)
		b.start()
		b.put(1, 95)
		b.uploaded(95)
		b.put(96, 200)
		if s := b.uploaded(200); s.Uploads < 2 || s.DeltaBytes == 0 || s.AgeSeconds < 0 {
			t.Errorf("%+v: no delta was uploaded", s)
		}
		b.halt()
		b.start()
		b.put(201, 295)
		s := b.uploaded(295)
		if s.Base || s.Serial < 3 {
			t.Errorf("%+v", s)
		}
		file := filepath.Join(b.dir, "fetched.savepoint")
		r := b.fetch(file)
		info := b.savepoint(true)
		if got, want := savepointText(t, file), savepointText(t, info.File); got != want {
			t.Errorf("fetched is\n%s\nthe savepoint is\n%s", got, want)
		}
		if r.Upload.Indexed+uint64(len(r.Upload.Frames)) < 2 {
			t.Errorf("%d frames: no chain was fetched", len(r.Upload.Frames))
		}
		b.halt()
		if err := OrderRestore(filepath.Join(b.dir, "state"), "p", api.RestoreOptions{File: file}); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.put(296, 309)
		b.await("delivery after the restore", at(309))
		b.uploaded(309)
		b.halt()
		b.wantIDs("p", [2]int{1, 309})
		b.wantCounts(30)
	}
}
