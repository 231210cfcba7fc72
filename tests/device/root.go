package device

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weirstream/weir/tests/rig"
)

// rootPackages are what a gateway with systemd has, and the tests use.
const rootPackages = "systemd,systemd-sysv,udev,dbus,e2fsprogs,base-passwd,base-files,libc-bin,dash,bash,coreutils,sed,grep,util-linux,mount,login,passwd,kmod," +
	"dpkg,tar,gzip,findutils,diffutils,debianutils,perl-base,init-system-helpers,adduser" // dpkg and what weir's package depends on

const rootTar = "root.tar"

// rootArchive gives a tar file of Debian for arm64 as its packages unpack: no maintainer script has run, so that nothing is emulated on the host.
func rootArchive(ctx context.Context) (string, error) {
	sum := sha256.Sum256([]byte(rootPackages))
	dir, err := cached(fmt.Sprintf("%s-arm64-root-%x", release, sum[:4]), func(dir string) error {
		work, err := os.MkdirTemp(roomy(), "weir-device-root-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		from, err := mirror(ctx)
		if err != nil {
			return err
		}
		args := []string{"--quiet", "--architectures=arm64", "--variant=extract", "--mode=root", "--keyring=" + keyring,
			`--aptopt=Acquire::Languages "none"`, `--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
			"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
			"--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=" + rootPackages, release, filepath.Join(dir, rootTar), "deb " + from + " " + release + " main"}
		if _, err := command(ctx, []string{"TMPDIR=" + work}, "", "mmdebstrap", args...); err != nil {
			return fmt.Errorf("%w: no root file system: %w", errNotHere, err)
		}
		return nil
	})
	return filepath.Join(dir, rootTar), err
}

// roomy is where a file system of half a gigabyte is unpacked: in memory if it may be, for dpkg syncs each file. "": where temporary files go.
func roomy() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// readyUnit says when weir is ready, as systemd has it: with Type=notify it is active only then.
const readyUnit = `[Unit]
Description=tells the test that weir is ready
ConditionKernelCommandLine=!device.install
After=weir.service
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=null
ExecStart=/bin/sh -c 'until systemctl is-active --quiet weir; do sleep 0.3; done; read up rest </proc/uptime; pid=$$(systemctl show -P MainPID weir); rss=$$(grep VmRSS /proc/$$pid/status); echo; echo DEVICE $$up ready restarts=$$(systemctl show -P NRestarts weir) failed=$$(systemctl --failed --no-legend --plain | cut -d" " -f1) $$rss >/dev/ttyAMA0'
[Install]
WantedBy=multi-user.target
`

// installUnit installs weir at the machine's first boot, which says so on its command line. Its script ends with the machine off.
const installUnit = `[Unit]
Description=installs weir
ConditionKernelCommandLine=device.install
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh /opt/device/install.sh
[Install]
WantedBy=multi-user.target
`

// installScript does what docs/install.md says: the package, then a config. What is unpacked on this disk dpkg knows nothing of; tests/systemd has a machine on
// which the dependencies are installed as well.
const installScript = `exec >/dev/ttyAMA0 2>&1
set -e
say() { read up rest </proc/uptime; echo; echo DEVICE $up "$@"; }
trap 'say failed: weir is not installed' EXIT
dpkg --force-depends -i /opt/device/weir.deb
systemctl is-active weir
cat /opt/device/weir.yaml >/etc/weir/weir.yaml
mkdir -p /etc/weir/fleet
cp /opt/device/root.json /etc/weir/fleet/root.json
say installed $(dpkg-query -W -f '${Version}' weir)
trap - EXIT
systemctl --no-block poweroff
`

// rootFiles are what the root disk has besides Debian and weir's package. weir's state, and the slots of its programs, lie on the data disk.
var rootFiles = map[string]string{
	"etc/fstab": "LABEL=root / ext4 defaults 0 0\nLABEL=data /data ext4 noatime,errors=panic,x-systemd.device-timeout=0 0 2\n" +
		"/data/weir /var/lib/weir none bind 0 0\n/data/weir-boot /var/lib/weir-boot none bind,nofail 0 0\n",
	"etc/hostname":                              "device\n",
	"etc/hosts":                                 "127.0.0.1 localhost device\n",
	"etc/machine-id":                            "00000000000000000000000000006d61\n", // the root is as new at every boot, and yet always the same machine
	"opt/device/weir.yaml":                      configFor("/var/lib/weir", upgradable+whole),
	"opt/device/install.sh":                     installScript,
	"var/lib/dpkg/status":                       "",
	"etc/systemd/system/device-ready.service":   readyUnit,
	"etc/systemd/system/device-install.service": installUnit,
	"etc/systemd/journald.conf.d/device.conf":   "[Journal]\nStorage=volatile\nForwardToConsole=yes\nTTYPath=/dev/ttyAMA0\n",
}

// masked are units that have nothing to do here and take an emulated processor's time.
var masked = []string{"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "systemd-random-seed.service",
	"systemd-pstore.service", "systemd-update-utmp.service", "serial-getty@ttyAMA0.service", "getty@tty1.service"}

// programs are what goes onto a root disk: weir's package, the program that upgrades bring, and a helper with planted faults.
type programs struct{ deb, next, helper string }

// buildRoot makes an image of a root disk that installs weir's package at its first boot. It needs root, for the owners of the files.
func buildRoot(ctx context.Context, dir string, p programs) (string, error) {
	archive, err := rootArchive(ctx)
	if err != nil {
		return "", err
	}
	tree, err := os.MkdirTemp(roomy(), "weir-device-tree-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tree)
	if _, err := command(ctx, nil, "", "tar", "-C", tree, "-xf", archive); err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(tree, 0o755), configure(tree), provision(ctx, tree, p)); err != nil {
		return "", err
	}
	image := filepath.Join(dir, "root.img")
	f, err := os.Create(image)
	if err != nil {
		return "", err
	}
	if err := errors.Join(f.Truncate(rootBytes), f.Close()); err != nil {
		return "", err
	}
	_, err = command(ctx, nil, "", mkfs(), "-q", "-F", "-t", "ext4", "-L", "root", "-O", "^has_journal", "-d", tree, image)
	return image, err
}

// provision puts weir's programs into the tree, and the root document of the fleet that they are signed for.
func provision(ctx context.Context, tree string, p programs) error {
	document, err := rig.FleetRoot(ctx)
	if err != nil {
		return err
	}
	for name, from := range map[string]string{"opt/device/weir.deb": p.deb, nextBase: p.next, faultHelper: p.helper} {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, name), b, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(tree, "opt/device/root.json"), document, 0o644)
}

// rootBytes of which most are a hole in the file.
const rootBytes = 512 << 20

// configure does what maintainer scripts would have done, as far as it is needed.
func configure(tree string) error {
	in := func(name string) string { return filepath.Join(tree, name) }
	for _, name := range []string{"passwd", "group"} {
		b, err := os.ReadFile(in("usr/share/base-passwd/" + name + ".master"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(in("etc/"+name), b, 0o644); err != nil {
			return err
		}
	}
	files := maps.Clone(rootFiles)
	maps.Copy(files, upgradeFiles)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{"data", "var/lib/weir", "var/lib/weir-boot", "var/lib/dpkg/info", "var/lib/dpkg/updates", "tmp", "run", "mnt", "proc", "sys", "dev"} {
		if err := os.MkdirAll(in(d), 0o755); err != nil {
			return err
		}
	}
	for _, unit := range masked {
		if err := os.Symlink("/dev/null", in("etc/systemd/system/"+unit)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, unit := range []string{"device-ready.service", "device-install.service", "device-command.service", "device-found.service", "device-fault.service"} {
		if err := enable(tree, unit); err != nil {
			return err
		}
	}
	return errors.Join(appendTo(in("etc/passwd"), "messagebus:x:100:102::/nonexistent:/usr/sbin/nologin\n"), appendTo(in("etc/group"), "messagebus:x:102:\n"),
		os.Chmod(in("tmp"), 0o1777))
}

// enable is systemctl enable for a unit of multi-user.target.
func enable(tree, unit string) error {
	wants := filepath.Join(tree, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	return os.Symlink("/etc/systemd/system/"+unit, filepath.Join(wants, unit))
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// mkfs is Debian's, which is not on everybody's PATH.
func mkfs() string {
	if path, err := exec.LookPath("mke2fs"); err == nil {
		return path
	}
	return "/sbin/mke2fs"
}
