package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errNotHere: this machine cannot run the test, and says why. It is no failure of weir's, and no pass either.
var errNotHere = errors.New("NOT TESTED HERE")

// cacheEnv names the directory that keeps what comes from Debian; else it is weir-device in the user's cache directory.
const cacheEnv = "WEIR_DEVICE_CACHE"

func cacheDir() (string, error) {
	dir := os.Getenv(cacheEnv)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w: no cache directory; name one with %s: %w", errNotHere, cacheEnv, err)
		}
		dir = filepath.Join(base, "weir-device")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// cached gives the directory of this name in the cache. When it is not there, fill makes its content, which appears whole or not at all; of several test
// processes one makes it and the others wait.
func cached(name string, fill func(dir string) error) (string, error) {
	base, err := cacheDir()
	if err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and with it the lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	made, err := os.MkdirTemp(base, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil { // apt downloads as a user of its own
		return "", err
	}
	if err := fill(made); err != nil {
		return "", err
	}
	return dir, os.Rename(made, dir)
}
