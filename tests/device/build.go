package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/tests/rig/nbd"
)

const repository = "../.."

// tags of the release build, with which that with planted faults shares all objects that have none.
const faultTags = "weirfault,nethttpomithttp2"

// nextVersion is what the program with planted faults calls itself.
const nextVersion = "v2"

// buildWeir builds weir for the machine by the Makefile: what goes to gateways, or the same with planted faults.
func buildWeir(ctx context.Context, dir string, faults bool) (string, error) {
	args := []string{"-s", "-C", repository, "DIR=" + dir, "cross-arm64"}
	if faults {
		args = append(args, "TAGS="+faultTags, "VERSION="+nextVersion)
	}
	_, err := commandOutside(ctx, "make", args...)
	return filepath.Join(dir, "weir-linux-arm64"), err
}

// buildPackage builds weir's package for the machine, and gives its name.
func buildPackage(ctx context.Context, dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil { // an older version's would have another name
		return "", err
	}
	if _, err := commandOutside(ctx, "make", "-s", "-C", repository, "DIR="+dir, "deb-arm64"); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "weir_*_arm64.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("make deb-arm64 made %d packages: %w", len(debs), errors.Join(err, os.ErrNotExist))
	}
	return debs[0], nil
}

// buildInit builds process 1 of the machine.
func buildInit(ctx context.Context, dir string) (string, error) {
	file := filepath.Join(dir, "init")
	_, err := command(ctx, []string{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"}, "", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./guest")
	return file, err
}

// commandOutside runs a make that knows nothing of the one that runs this test.
func commandOutside(ctx context.Context, name string, args ...string) (string, error) {
	clear := []string{"-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "-u", "MAKEOVERRIDES", name}
	return command(ctx, nil, "", "env", append(clear, args...)...)
}

// buildInitramfs puts process 1, the kernel's modules and, unless it is nil, weir with its config into an archive.
func buildInitramfs(file, init, modules, weir, pipelines string) error {
	var a archive
	put := func(name, from string) error {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		a.add(name, b)
		return nil
	}
	if err := put("init", init); err != nil {
		return err
	}
	a.device("dev/console", 5, 1)
	files, err := filepath.Glob(filepath.Join(modules, "*.ko"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no modules in %s: %w", modules, err)
	}
	for _, f := range files { // Glob sorts them
		if err := put("modules/"+filepath.Base(f), f); err != nil {
			return err
		}
	}
	if weir != "" {
		if err := put("weir", weir); err != nil {
			return err
		}
		a.add("weir.yaml", []byte(configFor("/data/weir", pipelines)))
	}
	return os.WriteFile(file, a.bytes(), 0o644)
}

// hardwareFor is what a machine needs that runs weir with these pipelines directly; its files are in dir.
func hardwareFor(ctx context.Context, dir, weir, pipelines string, env ...string) (h hardware, err error) {
	parts, err := kernel(ctx)
	if err != nil {
		return h, err
	}
	init, err := buildInit(ctx, dir)
	if err != nil {
		return h, err
	}
	h.kernel, h.initramfs = filepath.Join(parts, kernelFile), filepath.Join(dir, "initramfs")
	h.append = "device.mode=direct"
	for _, e := range env {
		h.append += " device.env=" + e
	}
	return h, buildInitramfs(h.initramfs, init, parts, weir, pipelines)
}

// hardwareWithSystemd is what a machine needs on which systemd runs weir, of its package. It is installed.
func hardwareWithSystemd(ctx context.Context, dir string, p programs) (h hardware, err error) {
	h, err = hardwareFor(ctx, dir, "", "")
	if err != nil {
		return h, err
	}
	h.append = strings.Replace(h.append, "direct", "systemd", 1) + " systemd.show_status=0 systemd.default_timeout_start_sec=600" // a host that is busy may need minutes for what a board does in seconds
	h.root, err = buildRoot(ctx, dir, p)
	if err != nil {
		return h, err
	}
	return h, h.install(ctx, dir)
}

// install has the machine install weir on its root disk, which keeps it; the data disk is not the one of the run.
func (h hardware) install(ctx context.Context, dir string) error {
	disk, err := newDataDisk(ctx, dir, stateDirs...)
	if err != nil {
		return err
	}
	h.data = filepath.Join(dir, "disk")
	l, err := net.Listen("unix", h.data)
	if err != nil {
		return err
	}
	server := nbd.Serve(l, disk)
	defer server.Close()
	h.rootKept = true
	h.append += " device.install"
	m, err := h.powerOn(dir, 0)
	if err != nil {
		return err
	}
	defer m.powerOff()
	if _, err := m.await(ctx, "installed", bootMost); err != nil {
		return fmt.Errorf("install weir: %w", err)
	}
	select {
	case <-m.child.Done(): // it has switched itself off, and written what it had
		return nil
	case <-time.After(bootMost):
		return errTooLong
	}
}
