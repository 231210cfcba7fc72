//go:build !nocentral

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
