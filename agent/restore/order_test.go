package restore

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// TestOrderStandsUntilItIsTakenBack: the order of a pipeline that has no directory yet is there as it was given, a repeat replaces it, and it is taken back once.
func TestOrderStandsUntilItIsTakenBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pipelines", "p")
	wantPending := func(want bool) {
		t.Helper()
		if pending, err := Pending(dir); err != nil || pending != want {
			t.Errorf("pending %v, %v; want %v", pending, err, want)
		}
	}
	if _, there, err := Ordered(disk.OS, dir); there || err != nil {
		t.Errorf("an order before one was given: %v", err)
	}
	wantPending(false)
	for _, want := range []api.RestoreOptions{{File: "/a"}, {File: "/b", SHA256: "00", Claim: true, Behind: 7}} {
		if err := Order(dir, want); err != nil {
			t.Fatal(err)
		}
		if is, there, err := Ordered(disk.OS, dir); !there || err != nil || !reflect.DeepEqual(is, want) {
			t.Errorf("%+v, %v, %v; want %+v", is, there, err, want)
		}
		wantPending(true)
	}
	if err := Cancel(dir); err != nil {
		t.Error(err)
	}
	wantPending(false)
	if err := Cancel(dir); !errors.Is(err, ErrNoOrder) {
		t.Errorf("taken back twice: %v", err)
	}
}

// TestOrderOfANewerBuild is one, and is known for what it is.
func TestOrderOfANewerBuild(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(`{"format": 2, "file": 7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, there, err := Ordered(disk.OS, dir); !there || !record.IsNewer(err) {
		t.Errorf("%v, %v", there, err)
	}
}
