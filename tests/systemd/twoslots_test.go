package systemd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twoSlots is a machine of two whole systems, one of which the boot loader starts: Debian with the package is the same in both, and what a slot's image holds lies over it. What is shared is on a partition of data.
type twoSlots struct {
	*machine
	t         *testing.T
	home      string // its directory (twoslots/power.sh)
	key, cert string // who signs bundles
	onBoot    func() // behind each boot
	boots     int
	most      int // boots that there may be: a machine that starts for ever is stopped
}

// dataOf are directories of the systems that lie on data. /var/lib/weir-boot, where the package's link is, does not: each system has its own.
var dataOf = [][2]string{
	{"weir", "/var/lib/weir"}, {"weir-files", "/var/lib/weir-files"}, {"rauc", "/var/lib/rauc"}, {"journal", "/var/log/journal"}, {"etc", "/etc/weir"}, {"unit", "/etc/systemd/system/weir.service.d"},
}

// bootsMost is how many starts anything may take.
const bootsMost = 40

// wholeDir is where power.sh puts a slot's system together.
const wholeDir = "whole"

// newTwoSlots makes the machine, with the program given in slot A, and nothing in slot B. It does not run yet.
func newTwoSlots(t *testing.T, program string) *twoSlots {
	t.Helper()
	need(t)
	for _, tool := range []string{"rauc", "mksquashfs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED HERE: a machine with RAUC: %s is not installed (make deps)", tool)
		}
	}
	archive, err := rootArchive()
	if err != nil {
		t.Fatal(err)
	}
	m := &twoSlots{machine: &machine{}, t: t, home: filepath.Join(t.TempDir(), "machine")}
	for _, dir := range []string{"base", "flash/env", "image", "volatile", wholeDir, "data", "work", "partition"} {
		m.must(os.MkdirAll(filepath.Join(m.home, dir), 0o755))
	}
	m.key, m.cert = filepath.Join(m.home, "work", "key"), filepath.Join(m.home, "work", "cert")
	m.must(signer(m.key, m.cert))
	m.must(m.image(program, filepath.Join(m.home, "flash", "slot.A")))
	m.probe()
	m.outside("tar", "--numeric-owner", "-C", m.home+"/base", "-xf", archive)
	m.install()
	for name, value := range map[string]string{"primary": "A", "state.A": "good", "left.A": "0", "state.B": "bad", "left.B": "0"} {
		m.must(os.WriteFile(m.env(name), []byte(value+"\n"), 0o644))
	}
	m.must(os.WriteFile(filepath.Join(m.home, "flash", "slot.B"), nil, 0o600))
	m.log, err = os.Create(filepath.Join(m.home, "boot.log"))
	m.must(err)
	return m
}

// probe skips where such a machine cannot be made.
func (m *twoSlots) probe() {
	m.t.Helper()
	out, err := exec.Command("unshare", "-m", "sh", "-ec", `cd "$0"; PATH=$PATH:/sbin
mount -t squashfs -o loop,ro flash/slot.A image
mount -t tmpfs volatile volatile
mkdir volatile/changes volatile/work
mkfs.ext4 -q -F data.img 8M
mount -o loop data.img data
mount -t overlay -o lowerdir=image:base,upperdir=volatile/changes,workdir=volatile/work system "$1"
mknod volatile/loop b 7 0
test -r "$1/etc/gateway" -a -e /dev/loop-control`, m.home, wholeDir).CombinedOutput()
	if err != nil {
		m.t.Skipf("NOT TESTED HERE: a machine with two slots: %v %s", err, last(out, 300))
	}
}

func (m *twoSlots) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// outside runs a program beside the machine.
func (m *twoSlots) outside(name string, args ...string) {
	m.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, last(out, 2000))
	}
}

// env is a value of the boot loader's, or a word to it.
func (m *twoSlots) env(name string) string { return filepath.Join(m.home, "flash", "env", name) }

// install makes the image's base as docs/upgrade.md has it: the package, its units, RAUC's config and the policy of the bus.
func (m *twoSlots) install() {
	m.t.Helper()
	base := filepath.Join(m.home, "base")
	deb, err := os.ReadFile(need(m.t).path(debOf(newVersion)))
	m.must(err)
	m.must(os.WriteFile(base+debOf(newVersion), deb, 0o644))
	m.outside("chroot", base, "dpkg", "-i", debOf(newVersion))
	m.outside("chroot", base, "systemctl", "enable", "weir-reboot.path")
	m.must(os.Remove(base + debOf(newVersion)))
	m.must(os.MkdirAll(base+"/flash", 0o755))
	conf := strings.NewReplacer("bootloader=uboot", "bootloader=custom", "type=ext4", "type=raw").Replace(documented(m.t, "[system]"))
	conf += "\n[keyring]\npath=/etc/rauc/keyring.pem\n\n[handlers]\nbootloader-custom-backend=/flash/loader\n"
	cert, err := os.ReadFile(m.cert)
	m.must(err)
	data := m.partition("")
	var table strings.Builder
	for _, d := range dataOf {
		m.must(os.MkdirAll(filepath.Join(base, d[1]), 0o755))
		m.outside("cp", "-a", base+d[1], filepath.Join(data, d[0]))
		fmt.Fprintln(&table, d[0], d[1])
	}
	for name, text := range map[string]string{
		base + "/etc/rauc/system.conf":               conf,
		base + "/etc/rauc/keyring.pem":               string(cert),
		base + "/etc/dbus-1/system.d/weir-rauc.conf": documented(m.t, "<!DOCTYPE busconfig"),
		base + "/etc/machine-id":                     "5b6b3c1e0f7a4d0f9a3c8d2e6f1a7b90\n",
		data + "/unit/documented.conf":               documented(m.t, "[Unit]\nStartLimit"),
		data + "/table":                              table.String(),
	} {
		m.must(os.MkdirAll(filepath.Dir(name), 0o755))
		m.must(os.WriteFile(name, []byte(text), 0o644))
	}
	loader, err := os.ReadFile("twoslots/loader.sh")
	m.must(err)
	m.must(os.WriteFile(filepath.Join(m.home, "flash", "loader"), loader, 0o755))
}

// documented is the block of docs/upgrade.md that begins so: what an operator is told to write is what runs here.
func documented(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```\n"+begins)
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("docs/upgrade.md has no block that begins with %q", begins)
	}
	return begins + block
}

// signer makes a key and its certificate, which is its own authority.
func signer(key, cert string) error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "builder"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	c, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c}), 0o644))
}

// unpressed has images made fast: what they hold is gone in a moment.
const unpressed = "-noI -noD -noF -noX"

// image makes a system of a program. Which one it is says /etc/gateway: the program's digest.
func (m *twoSlots) image(program, file string) error {
	tree, err := os.MkdirTemp(filepath.Join(m.home, "work"), "tree")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	b, err := os.ReadFile(program)
	if err == nil {
		err = errors.Join(os.Chmod(tree, 0o755), os.MkdirAll(tree+"/usr/bin", 0o755), os.MkdirAll(tree+"/etc", 0o755), os.WriteFile(tree+"/usr/bin/weir", b, 0o755), os.WriteFile(tree+"/etc/gateway", []byte(hexOf(b)+"\n"), 0o644))
	}
	if err != nil {
		return err
	}
	return squash(tree, file)
}

func squash(tree, file string) error {
	out, err := exec.Command("mksquashfs", append([]string{tree, file, "-noappend", "-quiet", "-no-progress"}, strings.Fields(unpressed)...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mksquashfs: %w: %s", err, last(out, 500))
	}
	return err
}

// bundle makes one of an image. half: its own hook writes it, and can stand in the middle.
func (m *twoSlots) bundle(image, file string, half bool) error {
	dir, err := os.MkdirTemp(filepath.Join(m.home, "work"), "bundle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	manifest := "[update]\ncompatible=my-gateway\nversion=2\n[bundle]\nformat=plain\n"
	if half {
		manifest += "[hooks]\nfilename=half.sh\n"
	}
	manifest += "[image.rootfs]\nfilename=rootfs.img\n"
	if half {
		manifest += "hooks=install\n"
	}
	hook, err := os.ReadFile("twoslots/half.sh")
	if err := errors.Join(err, os.Rename(image, dir+"/rootfs.img"), os.WriteFile(dir+"/manifest.raucm", []byte(manifest), 0o600), os.WriteFile(dir+"/half.sh", hook, 0o755)); err != nil {
		return err
	}
	os.Remove(file)
	out, err := exec.Command("rauc", "--cert", m.cert, "--key", m.key, "--mksquashfs-args="+unpressed, "bundle", dir, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make a bundle: %w: %s", err, last(out, 500))
	}
	return os.Chmod(file, 0o644)
}

// partition is where a file of the partition of data lies before the machine runs.
func (m *twoSlots) partition(name string) string { return filepath.Join(m.home, "partition", name) }

// power makes the partition of data, a file system of its own as RAUC asks of one that has bundles, and switches the machine on.
func (m *twoSlots) power() {
	m.t.Helper()
	m.outside("/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-d", m.partition(""), filepath.Join(m.home, "flash", "data.img"), "1G")
	m.most = bootsMost
	m.t.Cleanup(func() { m.machine.stop() })
	m.firmware()
}

// firmware starts a machine that does not run, once: it was never on, has rebooted, process 1 was killed, or nothing was to be started. Whoever waits for something asks for it again and again.
func (m *twoSlots) firmware() {
	m.t.Helper()
	if m.init != nil && syscall.Kill(m.init.Process.Pid, 0) == nil {
		return
	}
	if m.boots++; m.boots > m.most {
		said, _ := os.ReadFile(m.log.Name())
		m.t.Fatalf("the machine was started %d times, which does not end: %s", m.boots, last(said, 600))
	}
	m.init = exec.Command("/bin/sh", "twoslots/power.sh", m.home)
	m.init.Stdout, m.init.Stderr = m.log, m.log
	m.init.SysProcAttr = namespaces()
	closeGroup := m.ownGroup()
	defer closeGroup()
	if err := m.start(); err == nil {
		m.dir = fmt.Sprintf("/proc/%d/root", m.init.Process.Pid)
		if m.onBoot != nil {
			m.onBoot()
		}
	} else if m.init.Process == nil || syscall.Kill(m.init.Process.Pid, 0) == nil {
		m.t.Fatalf("the machine does not start: %v", err)
	}
}

// slot is the boot loader's name of what runs.
func (m *twoSlots) slot() string {
	b, _ := os.ReadFile(filepath.Join(m.home, "boots"))
	f := strings.Fields(string(b))
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// gateway tells which system runs.
func (m *twoSlots) gateway() string {
	b, _ := os.ReadFile(m.path("/etc/gateway"))
	return strings.TrimSpace(string(b))
}
