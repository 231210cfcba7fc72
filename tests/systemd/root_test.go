package systemd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// release and packages are what the machine is made of: what the package depends on, and an init.
const release = "bookworm"

var packages = []string{"systemd", "systemd-sysv", "dbus", "adduser", "init-system-helpers", "rauc-service"}

// errHere: this machine cannot run the tests; the text tells why.
var errHere = errors.New("systemd in namespaces")

// rootArchive gives the root as an archive, from the cache or made now.
func rootArchive() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errHere, err)
	}
	dir := filepath.Join(cache, "weir-tests")
	recipe := append([]string{"--mode=root", "--variant=essential", "--dpkgopt=force-unsafe-io", "--include=" + strings.Join(packages, ","), release}, "2")
	file := filepath.Join(dir, fmt.Sprintf("%s-%.6x.tar", release, sha256.Sum256([]byte(strings.Join(recipe, " ")))))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	tool, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", fmt.Errorf("%w: mmdebstrap is not installed: `make deps` installs it", errHere)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", errHere, err)
	}
	made := fmt.Sprintf("%s.%d.tar", file, os.Getpid()) // two runs at once do not meet
	defer os.Remove(made)
	cmd := exec.Command(tool, append(recipe[:len(recipe)-1], made)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: mmdebstrap: %w: %s", errHere, err, last(out, 600))
	}
	if err := os.Rename(made, file); err != nil {
		return "", fmt.Errorf("keep the root: %w", err)
	}
	return file, nil
}

// last is the end of a text.
func last(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return strings.TrimSpace(string(b))
}
