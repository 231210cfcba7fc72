package rauc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/bus"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// imageBytes of a system: enough for several writes.
const imageBytes = 1 << 20

// workshop makes bundles: a signer of its own, and each bundle once in a run of the tests.
type workshop struct {
	dir     string
	mu      sync.Mutex
	bundles map[string][]byte
	images  map[string]string // sha256 of an image -> of its bundle
}

var shop = &workshop{bundles: map[string][]byte{}, images: map[string]string{}}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-rauc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shop.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// needs skips where RAUC cannot run.
func needs(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"rauc", "mksquashfs", "dbus-daemon"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED HERE: RAUC: %s is not installed (make deps)", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED HERE: RAUC: mounting a bundle needs root")
	}
	b, err := shop.bundle("one", "right", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name, at := filepath.Join(dir, "b"), filepath.Join(dir, "at")
	if err := errors.Join(os.WriteFile(name, b, 0o600), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "squashfs", "-o", "loop,ro", name, at).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED HERE: RAUC: a bundle cannot be mounted: %v %s", err, out)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
}

// signer gives a key and its certificate, which is its own authority.
func (w *workshop) signer(name string) (key, cert string, err error) {
	key, cert = filepath.Join(w.dir, name+".key"), filepath.Join(w.dir, name+".crt")
	if _, err := os.Stat(cert); err == nil {
		return key, cert, nil
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	c, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	return key, cert, errors.Join(
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c}), 0o644))
}

// bundle is one whose image is made of kind.
func (w *workshop) bundle(kind, signer, compatible string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := kind + "-" + signer + "-" + compatible
	if b := w.bundles[name]; b != nil {
		return b, nil
	}
	key, cert, err := w.signer(signer)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, name)
	image := make([]byte, imageBytes)
	rand.Read(image)
	manifest := "[update]\ncompatible=" + compatible + "\nversion=" + kind + "\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=rootfs.img\n"
	err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "rootfs.img"), image, 0o600), os.WriteFile(filepath.Join(dir, "manifest.raucm"), []byte(manifest), 0o600))
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command("rauc", "--cert", cert, "--key", key, "bundle", dir, dir+".raucb").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a bundle: %w: %s", err, out)
	}
	b, err := os.ReadFile(dir + ".raucb")
	if err != nil {
		return nil, err
	}
	w.bundles[name] = b
	w.images[digestOf(image)] = digestOf(b)
	return b, nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func artifactOf(b []byte) upgrade.Artifact {
	return upgrade.Artifact{Target: upgrade.Target{Version: "new", SHA256: digestOf(b), Bytes: int64(len(b))}, ReaderAt: strings.NewReader(string(b))}
}

// loader is the shell part of a boot loader: two slots, tries, and what is first. RAUC calls it.
const loader = `#!/bin/sh
cd "$(dirname "$0")/env" || exit 1
usable() { case "$(cat state.$1)" in good) return 0;; trial) [ "$(cat left.$1)" -gt 0 ];; *) return 1;; esac; }
other() { [ "$1" = A ] && echo B || echo A; }
echo "$@" >> log
case "$1" in
get-primary) p=$(cat primary); usable $p || p=$(other $p); usable $p && echo $p;;
set-primary) echo "$2" > primary; [ -e unarmed ] || { echo 3 > left.$2; echo trial > state.$2; };;
get-state) usable $2 && echo good || echo bad;;
set-state) echo "$3" > state.$2;;
*) exit 1;;
esac
`

// triesOfLoader is how often the loader starts a slot that is not good yet.
const triesOfLoader = 3

// machine is a gateway: a bus, RAUC, two slots in files, a boot loader.
type machine struct {
	dir    string
	bus    *rig.Child
	rauc   *rig.Child
	booted string // the loader's name
	extra  string // of system.conf
	plant  fault
}

const busConf = `<busconfig><type>system</type><listen>%s</listen><auth>EXTERNAL</auth><policy context="default"><allow user="*"/><allow own="*"/><allow send_type="*"/><allow send_destination="*"/><allow receive_type="*"/></policy></busconfig>`

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }
func (m *machine) address() string         { return "unix:path=" + m.path("bus") }

// newMachine runs slot A, which it was made with.
func newMachine(dir string) (*machine, error) {
	m := &machine{dir: dir, booted: "A", extra: "activate-installed=false\n"}
	_, cert, err := shop.signer("right")
	if err != nil {
		return nil, err
	}
	wrong := errors.Join(os.MkdirAll(m.path("env"), 0o755), os.MkdirAll(m.path("mnt"), 0o755), os.MkdirAll(m.path("state"), 0o755), os.WriteFile(m.path("loader"), []byte(loader), 0o755),
		os.WriteFile(m.path("bus.conf"), fmt.Appendf(nil, busConf, m.address()), 0o644),
		m.setEnv("primary", "A"), m.setEnv("state.A", "good"), m.setEnv("left.A", "3"), m.setEnv("state.B", "bad"), m.setEnv("left.B", "0"), m.writeConf(cert))
	for _, s := range []string{"A", "B"} {
		wrong = errors.Join(wrong, os.WriteFile(m.path("slot."+s), make([]byte, 4*imageBytes), 0o644))
	}
	if wrong != nil {
		return nil, wrong
	}
	if err := m.startBus(); err != nil {
		return nil, err
	}
	return m, m.startRauc()
}

func (m *machine) writeConf(cert string) error {
	text := "[system]\ncompatible=gateway\nbootloader=custom\nbundle-formats=plain\nstatusfile=" + m.path("central.status") + "\nmountprefix=" + m.path("mnt") + "\n" + m.extra +
		"[keyring]\npath=" + cert + "\n[handlers]\nbootloader-custom-backend=" + m.path("loader") + "\n"
	for i, s := range []string{"A", "B"} {
		text += fmt.Sprintf("[slot.rootfs.%d]\ndevice=%s\ntype=raw\nbootname=%s\n", i, m.path("slot."+s), s)
	}
	return os.WriteFile(m.path("system.conf"), []byte(text), 0o644)
}

func (m *machine) setEnv(name, value string) error {
	return os.WriteFile(filepath.Join(m.path("env"), name), []byte(value+"\n"), 0o644)
}

func (m *machine) env(name string) string {
	b, _ := os.ReadFile(filepath.Join(m.path("env"), name))
	return strings.TrimSpace(string(b))
}

func (m *machine) startBus() (err error) {
	os.Remove(m.path("bus"))
	m.bus, err = rig.StartChild(m.path("bus.log"), nil, "dbus-daemon", "--config-file="+m.path("bus.conf"), "--nofork", "--nopidfile")
	if err != nil {
		return err
	}
	return m.until("the bus", m.bus, func(ctx context.Context) error {
		c, err := bus.Dial(ctx, m.address())
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

func (m *machine) startRauc() (err error) {
	m.rauc, err = rig.StartChild(m.path("rauc.log"), []string{"DBUS_SYSTEM_BUS_ADDRESS=" + m.address(), "DBUS_STARTER_BUS_TYPE=system"}, "rauc", "-c", m.path("system.conf"), "--override-boot-slot="+m.booted, "service")
	if err != nil {
		return err
	}
	return m.until("RAUC", m.rauc, func(ctx context.Context) error {
		s, err := m.backend().dial(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.busy(ctx)
		return err
	})
}

// until asks again and again, until it is answered, or the process has ended.
func (m *machine) until(what string, c *rig.Child, ask func(context.Context) error) error {
	ctx, stop := context.WithTimeout(context.Background(), rig.Patience)
	defer stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.Done():
			log, _ := os.ReadFile(m.path("rauc.log"))
			return fmt.Errorf("%s has ended: %w: %.2000s", what, err, log)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// backend is what a new process of the agent has.
func (m *machine) backend() *Backend {
	return &Backend{FS: disk.OS, State: m.path("state"), Address: m.address(), Conf: m.path("system.conf"), Reboot: m.path("reboot-request"), BootID: "boot", every: 200 * time.Millisecond, taken: rig.Patience, planted: m.plant}
}

// boot is a start of the machine: the loader chooses and counts, then RAUC runs.
func (m *machine) boot() (upgrade.Slot, error) {
	m.killRauc()
	usable := func(s string) bool {
		left, _ := strconv.Atoi(m.env("left." + s))
		return m.env("state."+s) == "good" || m.env("state."+s) == "trial" && left > 0
	}
	s := m.env("primary")
	if !usable(s) {
		s = map[string]string{"A": "B", "B": "A"}[s]
	}
	if !usable(s) {
		return "", errors.New("the boot loader starts nothing")
	}
	if m.env("state."+s) == "trial" {
		left, _ := strconv.Atoi(m.env("left." + s))
		if err := m.setEnv("left."+s, strconv.Itoa(left-1)); err != nil {
			return "", err
		}
	}
	m.booted = s
	return map[string]upgrade.Slot{"A": "rootfs.0", "B": "rootfs.1"}[s], m.startRauc()
}

// killRauc is kill -9. What it had mounted stays, as long as the machine runs.
func (m *machine) killRauc() {
	if m.rauc != nil {
		m.rauc.Kill()
		m.rauc = nil
	}
	m.unmount()
}

func (m *machine) unmount() {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], m.dir+"/") {
			unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

// runs is the digest of the bundle whose image the slot that runs has; "made" for what it was made with.
func (m *machine) runs() (string, error) { return m.holds(m.booted) }

func (m *machine) holds(s string) (string, error) {
	f, err := os.Open(m.path("slot." + s))
	if err != nil {
		return "", err
	}
	defer f.Close()
	image := make([]byte, imageBytes)
	if _, err := io.ReadFull(f, image); err != nil {
		return "", err
	}
	shop.mu.Lock()
	defer shop.mu.Unlock()
	if d := shop.images[digestOf(image)]; d != "" {
		return d, nil
	}
	return "made", nil
}

func (m *machine) close() {
	m.killRauc()
	if m.bus != nil {
		m.bus.Kill()
	}
}

// start gives a machine for one test.
func start(t *testing.T) *machine {
	t.Helper()
	needs(t)
	m, err := newMachine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}
