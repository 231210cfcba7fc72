package bucket_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

func TestDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not [made] yet")
	buckettest.Run(t, bucket.OpenDirectory(root), "site/gw-1/")
	buckettest.RunPages(t, bucket.OpenDirectory(root), "site/gw-2/")
}

func TestMemory(t *testing.T) {
	buckettest.Run(t, &buckettest.Memory{}, "site/gw-1/")
	buckettest.RunPages(t, &buckettest.Memory{}, "site/gw-2/")
}

// TestKilledWritersLeaveNothing: a temporary file is never listed, and goes at the next Prepare.
func TestKilledWritersLeaveNothing(t *testing.T) {
	root := t.TempDir()
	b := bucket.OpenDirectory(root)
	if err := b.Prepare(t.Context(), "gw/"); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, "gw", ".tmp-1")
	if err := os.WriteFile(left, []byte("half"), 0o640); err != nil {
		t.Fatal(err)
	}
	if page, err := b.List(t.Context(), "gw/", ""); err != nil || len(page) != 0 {
		t.Fatalf("listed: %v, %v", page, err)
	}
	if err := b.Put(t.Context(), "gw/object/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(root, "gw", "object", "*")); err != nil || len(names) != 1 || strings.Contains(names[0], ".tmp") {
		t.Fatalf("%v, %v", names, err)
	}
	if err := b.Prepare(t.Context(), "gw/"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Fatalf("the temporary file is still there: %v", err)
	}
}
