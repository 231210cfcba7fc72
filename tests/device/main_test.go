package device

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the cuts, as a failed run printed it; 0: a new one for each run")
	cutsFlag = flag.Int("cuts", 0, "how many cuts each run has; 0: what the form of the run says")
)

func init() {
	flag.StringVar(&keep, "keep", "", "directory that keeps consoles, logs and the receiver's data of the runs")
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == relayCommand {
		if err := relay(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// form of the run: WEIR_DEVICE=short is CI's, long that of make test-device.
func form() string { return os.Getenv("WEIR_DEVICE") }

// cutsOf chooses by the form.
func cutsOf(short, long int) int {
	switch {
	case *cutsFlag > 0:
		return *cutsFlag
	case form() == "long":
		return long
	}
	return short
}

// needMachine skips by name where no machine can be, or nobody asked for one.
func needMachine(t *testing.T, programs ...string) {
	t.Helper()
	if form() == "" {
		t.Skipf("%v: a machine is emulated for minutes: make test-device, or make test-device-short", errNotHere)
	}
	for _, p := range append([]string{emulator, "apt-get", "dpkg-deb"}, programs...) {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v: %s is not installed: make deps-device installs it on Debian", errNotHere, p)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		t.Skipf("%v: no keys of Debian's archive to check what is downloaded: %v", errNotHere, err)
	}
}

// here skips when this machine cannot, and fails on any other error.
func here(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errNotHere) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// seed of the run, printed so that it can be repeated. The cuts repeat, not the machine's scheduling.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: WEIR_DEVICE=%s go test ./tests/device -run '%s$' -seed %d)", s, form(), t.Name(), s)
	return s
}

// built is what buildWeir has made, for all tests of the process.
var built = map[bool]string{}

// weirFor builds weir once. The file is gone with the process's temporary directory, not with the test.
func weirFor(t *testing.T, faults bool) string {
	t.Helper()
	if built[faults] == "" {
		dir, err := filepath.Abs(filepath.Join(buildDir(t), fmt.Sprint(faults)))
		if err != nil {
			t.Fatal(err)
		}
		file, err := buildWeir(t.Context(), dir, faults)
		if err != nil {
			t.Fatal(err)
		}
		built[faults] = file
	}
	return built[faults]
}

// buildDir is in the cache: the next run finds it, and make has the last word on what is new.
func buildDir(t *testing.T) string {
	t.Helper()
	base, err := cacheDir()
	here(t, err)
	dir := filepath.Join(base, "weir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
