//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// TestARefusedTakeoverFencesNobody: a restore that this config does not allow leaves the device before at work, unclaimed. One that is allowed takes along what that device uploaded while
// the first of it was fetched and judged.
func TestARefusedTakeoverFencesNobody(t *testing.T) {
	old := newBench(t, pipelineNamed("p", "log"))
	store := t.TempDir()
	old.text = "board: one\ncentral: {url: \"file://" + store + "\", interval: 1s, fence_poll: 1s}\n" + old.text
	uploaded := func(n uint64) {
		t.Helper()
		old.await("it is uploaded", func(s *api.Status) bool {
			c := s.Pipelines[0].Central
			return at(n)(s) && c != nil && c.Position >= n
		})
	}
	old.start()
	old.put(1, 40)
	uploaded(40)

	twin := old.twin()
	legacy, err := OpenLegacy(twin.parse(), FromCentral, Trusted{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	right := twin.text
	twin.text = strings.Replace(right, "  p:", "  other:", 1)
	_, err = Takeover(t.Context(), twin.parse(), TakeoverOptions{Gateway: "test", From: legacy})
	if err == nil || !strings.Contains(err.Error(), "--accept-loss other") {
		t.Fatalf("nothing is left of the pipeline: %v", err)
	}
	b := bucket.OpenDirectory(store)
	if c, _, err := central.ReadClaim(t.Context(), b, "test"); err == nil && c.Major > 1 {
		t.Fatalf("the refused restore has claimed the gateway: %+v", c)
	}
	old.agent.checkClaim(t.Context())
	if s := old.agent.Status(); fenced(&s) {
		t.Fatal("the refused restore has fenced the device before")
	}

	twin.text = right
	told, err := Takeover(t.Context(), twin.parse(), TakeoverOptions{Gateway: "test", From: legacy, fault: func(at string) error {
		if at == "judged" {
			old.put(41, 80)
			uploaded(80)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if l := told.Pipelines[0].Loss; l == nil || l.Position < 80 {
		t.Errorf("it goes on from %+v: what was uploaded in between is lost", l)
	}
	if parts, err := filepath.Glob(filepath.Join(twin.dir, "state", "savepoints", "*"+offsite.PartsSuffix)); err != nil || len(parts) > 0 {
		t.Errorf("pieces are left: %v, %v", parts, err)
	}
	if _, err := os.Stat(filepath.Join(twin.dir, "state", takeoverFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the restore has not ended: %v", err)
	}
	old.await("the device before is fenced", fenced)
	old.end()
}
