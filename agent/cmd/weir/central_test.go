//go:build !nocentral

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink/central"
)

// TestCentralSaysWhatItNeeds: wrong usage is told before anything is asked; an empty store is not an error of ls, and one of fetch.
func TestCentralSaysWhatItNeeds(t *testing.T) {
	c := newCLI(t, cliConfig)
	c.want(2, "has no central store", "central", "ls")
	c.untouched()
	c = newCLI(t, cliConfig+"central: {url: \"file://DIR/store\"}\n")
	c.want(2, "--gateway needs --key", "central", "ls", "--gateway", "other")
	c.want(2, "want ed25519:", "central", "ls", "--key", "x")
	c.want(2, "one of them", "central", "ls", "--any-key", "--key", "ed25519:"+strings.Repeat("A", 43))
	c.want(2, "no such file", "central", "ls", "--any-key", "--identity", filepath.Join(c.dir, "none"))
	c.want(2, "--help", "central", "fetch")
	c.untouched()
	key := strings.TrimSpace(c.want(0, "ed25519:", "central", "key"))
	c.want(0, key, "central", "key") // it stays
	if info, err := os.Stat(filepath.Join(c.dir, "state", "identity", "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	c.want(0, "PIPELINE", "central", "ls")
	c.want(0, "[]", "central", "ls", "-o", "json")
	c.want(1, "no uploaded checkpoint can be fetched", "central", "fetch", "p", "--key", key)
	c.want(1, "no uploaded checkpoint can be fetched", "central", "verify", "p")
}

// TestUploadsWhoseNameIsNotKnown: a head that is damaged, or a manifest of another key, has no name; it is told why, and how to go on.
func TestUploadsWhoseNameIsNotKnown(t *testing.T) {
	whole := central.Listed{UUID: central.UUID{1}, Manifest: &central.Manifest{Name: "p"}}
	damaged := central.Listed{UUID: central.UUID{2}, Err: fmt.Errorf("%w: head", central.ErrDamaged)}
	if some, err := uploadsOf([]central.Listed{whole, damaged}, []string{"p"}); len(some) != 1 || err != nil {
		t.Errorf("%v, %v", some, err)
	}
	if some, err := uploadsOf([]central.Listed{whole, damaged}, []string{damaged.UUID.String()}); len(some) != 1 || err != nil {
		t.Errorf("by its UUID: %v, %v", some, err)
	}
	_, err := uploadsOf([]central.Listed{whole, damaged}, []string{"q"})
	for _, want := range []string{"pipeline q: no uploaded checkpoint can be fetched", damaged.UUID.String() + ": object is damaged: head", "give the UUID"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if _, err := uploadsOf([]central.Listed{whole}, []string{"q"}); err == nil || strings.Contains(err.Error(), "UUID") {
		t.Errorf("%v", err)
	}
}
