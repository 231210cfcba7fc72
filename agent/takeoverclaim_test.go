//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// TestARefusedTakeoverFencesNobody: a restore that this config does not allow leaves the device before at work, unclaimed. One that is allowed takes along what that device uploaded while
// the first of it was fetched and judged.
func TestARefusedTakeoverFencesNobody(t *testing.T) {
	old := newBench(t, pipelineNamed("p", "log"))
	store := t.TempDir()
	old.text = "board_serial: one\ncentral: {url: \"file://" + store + "\", interval: 1s, fence_poll: 1s}\n" + old.text
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
	legacy, err := takeover.OpenLegacy(twin.parse(), takeover.FromCentral, takeover.Trusted{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	right := twin.text
	twin.text = strings.Replace(right, "  p:", "  other:", 1)
	_, err = takeover.Run(t.Context(), twin.parse(), takeover.Options{Gateway: "test", From: legacy})
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
	told, err := takeover.Run(t.Context(), twin.parse(), takeover.Options{Gateway: "test", From: legacy, Fault: func(at string) error {
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
	if _, err := os.Stat(filepath.Join(twin.dir, "state", takeover.NoteFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the restore has not ended: %v", err)
	}
	old.await("the device before is fenced", fenced)
	old.end()
}

// TestATakeoverIsCutShortAnywhere: a crash behind each step leaves a state_dir in which no agent starts; the same call then ends, and the pipeline goes on with its next sequence.
func TestATakeoverIsCutShortAnywhere(t *testing.T) {
	old := newBench(t, pipelineNamed("p", "log"))
	old.text = "board_serial: one\n" + old.text
	claimed(old)
	old.start()
	old.put(1, 40)
	old.await("the first rows are out", at(40))
	from := t.TempDir()
	if _, err := old.agent.CreateSavepoint(t.Context(), "p", api.SavepointOptions{Pipeline: "p", Dir: from}); err != nil {
		t.Fatal(err)
	}
	old.halt()
	crash := errors.New("crash")
	var steps []string
	for n := 0; n == 0 || n <= len(steps); n++ { // the first goes through, and tells which steps there are
		twin := old.twin()
		state := filepath.Join(twin.dir, "state")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		o := takeover.Options{Gateway: "test", From: takeover.Directory(from), Claims: twin.options.claims}
		o.Fault = func(at string) error {
			if n == 0 {
				steps = append(steps, at)
			} else if at == steps[n-1] {
				return crash
			}
			return nil
		}
		if _, err := takeover.Run(t.Context(), twin.parse(), o); n > 0 {
			if !errors.Is(err, crash) {
				t.Fatalf("%s: %v", steps[n-1], err)
			}
			if takeover.RefuseCutShort(state) == nil {
				t.Fatalf("%s: an agent would start in half a restore", steps[n-1])
			}
			o.Fault = nil
			if _, err := takeover.Run(t.Context(), twin.parse(), o); err != nil {
				t.Fatalf("%s, again: %v", steps[n-1], err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if err := takeover.RefuseCutShort(state); err != nil {
			t.Fatal(err)
		}
		twin.start()
		twin.put(201, 220)
		twin.await("it goes on", at(20))
		own, rows := identity.GenerationsOf(twin.agent.incarnation().Major), 0
		for _, s := range twin.sequences("now") {
			if s.generation != own {
				continue
			}
			if s.row.ID != 201+rows || s.seq != uint64(41+rows) {
				t.Errorf("%d of %v: row %d is %d of generation %d", n, steps, s.row.ID, s.seq, s.generation)
			}
			rows++
		}
		if rows != 20 {
			t.Errorf("%d of %v: %d rows", n, steps, rows)
		}
		twin.halt()
	}
	if len(steps) < 7 {
		t.Errorf("steps %v", steps)
	}
}
