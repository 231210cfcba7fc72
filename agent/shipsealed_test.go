//go:build !nocentral && !noage

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/takeover"
)

// TestEncryptedRecordsAreReplayed: who has the identity goes on from encrypted uploads and records as from plain ones; who has not is refused before anything is claimed.
func TestEncryptedRecordsAreReplayed(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "age.key")
	if err := os.WriteFile(file, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := lostDevice(t, true, ", encrypt: {recipients: ["+id.Recipient().String()+"]}")
	if _, err := old.takeOver(old.twin(), takeover.Trusted{Any: true}, nil); err == nil || !strings.Contains(err.Error(), "piece is encrypted") {
		t.Errorf("without the identity: %v", err)
	}
	twin, told := old.replace(takeover.Trusted{Any: true, Identity: file})
	last := told.Pipelines[0].Loss.After
	twin.start()
	twin.put(201, 260)
	twin.await("the replacement delivers", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= last+60 })
	twin.halt()
	var ids []int
	for _, s := range twin.sequences("now") {
		ids = append(ids, s.row.ID)
	}
	if want := append(idsFrom(1, 95), idsFrom(201, 260)...); !slices.Equal(ids, want) || len(told.Notes) > 0 && strings.Contains(strings.Join(told.Notes, ""), "shipped records") {
		t.Errorf("upstream holds %v, told was %q", ids, told.Notes)
	}
}
