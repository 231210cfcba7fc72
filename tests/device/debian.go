package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Everything of the machine that is not ours is of this release of Debian, and comes by apt, which checks signatures.
const (
	release = "bookworm"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// mirror is where this machine's apt has the release from.
func mirror(ctx context.Context) (string, error) {
	out, err := command(ctx, nil, "", "apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", fmt.Errorf("%w: this is no Debian: %w", errNotHere, err)
	}
	for line := range strings.Lines(out) {
		if name, uri, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == release {
			return strings.TrimSuffix(uri, "/"), nil
		}
	}
	return "", fmt.Errorf("%w: this machine's apt has no source of Debian %s", errNotHere, release)
}

// commandMost bounds each step: what is downloaded, and what is built with nothing in the cache by a host that is busy.
const commandMost = 30 * time.Minute

// command runs a program and gives what it prints. A failure is told with the end of its output.
func command(ctx context.Context, env []string, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandMost)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	var out, both strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &both
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(out.String() + both.String())
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text[max(0, len(text)-2000):])
	}
	return out.String(), nil
}

// aptConfig makes apt's configuration for packages of arm64 in a directory, so that the host's own is neither used nor changed; only its proxy is.
func aptConfig(ctx context.Context, dir string) (env []string, err error) {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	proxy, err := command(ctx, nil, "", "apt-config", "dump", "--format", `%f "%v";%n`, "Acquire::http::Proxy")
	if err != nil {
		return nil, fmt.Errorf("%w: this is no Debian: %w", errNotHere, err)
	}
	from, err := mirror(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"status":       "",
		"sources.list": fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keyring, from, release),
		"apt.conf": strings.ReplaceAll(`#clear APT::Architectures;
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Dir::State "DIR/state";
Dir::State::status "DIR/status";
Dir::Cache "DIR/cache";
Dir::Log "DIR/log";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "DIR/sources.list";
Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
`, "DIR", dir) + proxy,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return []string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf"), "LC_ALL=C"}, nil
}

// modules of the kernel that the machine needs, in the order in which they need each other.
var modules = []string{
	"drivers/virtio/virtio_ring.ko", "drivers/virtio/virtio.ko", "drivers/virtio/virtio_mmio.ko", "drivers/block/virtio_blk.ko",
	"net/core/failover.ko", "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko",
}

const kernelFile = "vmlinuz"

// kernel gives a directory with a Debian kernel for arm64 and, numbered in their order, its modules.
func kernel(ctx context.Context) (string, error) {
	return cached(release+"-arm64-kernel", func(dir string) error {
		work, err := os.MkdirTemp("", "weir-device-apt-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		tree, err := downloadKernel(ctx, work)
		if err != nil {
			return err
		}
		return pickKernel(tree, dir)
	})
}

// kernelName is what the package linux-image-cloud-arm64 of today depends on.
var kernelName = regexp.MustCompile(`linux-image-[0-9][0-9a-z.-]*-cloud-arm64`)

// downloadKernel unpacks the package of the kernel below dir.
func downloadKernel(ctx context.Context, dir string) (string, error) {
	env, err := aptConfig(ctx, dir)
	if err != nil {
		return "", err
	}
	if _, err := command(ctx, env, dir, "apt-get", "-qq", "update"); err != nil {
		return "", fmt.Errorf("%w: no list of Debian's packages: %w", errNotHere, err)
	}
	depends, err := command(ctx, env, dir, "apt-cache", "depends", "linux-image-cloud-arm64")
	if err != nil {
		return "", err
	}
	name := kernelName.FindString(depends)
	if name == "" {
		return "", fmt.Errorf("linux-image-cloud-arm64 depends on no kernel: %s", depends)
	}
	if _, err := command(ctx, env, dir, "apt-get", "-qq", "download", name); err != nil {
		return "", fmt.Errorf("%w: no kernel: %w", errNotHere, err)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("apt-get download made %d packages: %w", len(debs), err)
	}
	tree := filepath.Join(dir, "tree")
	_, err = command(ctx, nil, dir, "dpkg-deb", "-x", debs[0], tree)
	return tree, err
}

// pickKernel copies what the machine needs out of an unpacked package.
func pickKernel(tree, dir string) error {
	one := func(pattern string) ([]byte, error) {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("the kernel's package has %d of %s: %w", len(found), pattern, errors.Join(err, os.ErrNotExist))
		}
		return os.ReadFile(found[0])
	}
	b, err := one("boot/vmlinuz-*")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, kernelFile), b, 0o644); err != nil {
		return err
	}
	for i, m := range modules {
		b, err := one(filepath.Join("lib/modules/*/kernel", m))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(m))), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
