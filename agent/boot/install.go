package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
)

// Names of what the agent leaves in state_dir/upgrade.
const (
	upgradeDir   = "upgrade"
	stagedFile   = "slot"
	releaseFile  = "release.json"
	documentMax  = 1 << 20
	programMax   = 512 << 20
	recordMax    = 1 << 20
	backendSelf  = "self"
	rootStepsMax = 64 // root documents walked in one start; the next one goes on
)

// Why what the agent has fetched is not installed.
var (
	errRelease = errors.New("the release does not name this program")
	errCopy    = errors.New("what was fetched is not what the release names")
)

// install copies what the agent has fetched into a slot that does not run, and verifies it there: its digest must be that of the record and be named, for this processor, by a release manifest that the role release has signed, of a
// secure version not below the floor. Durable on return. Until the new program is verified the slot keeps the one before.
func (p *Places) install(ctx context.Context, s upgrade.Slot, digest string, floor uint64, factory string) error {
	release, payload, err := p.release()
	if err != nil {
		return err
	}
	artifact := find(release, p.Arch, digest)
	switch {
	case artifact == nil:
		return fmt.Errorf("%w: %s, %s, sha256 %.12s", errRelease, release.Version, p.Arch, digest)
	case artifact.Bytes <= 0 || artifact.Bytes > programMax:
		return fmt.Errorf("%w: %d bytes", errRelease, artifact.Bytes)
	case release.SecureVersion < floor && p.planted != faultNoFloor:
		return fmt.Errorf("%w: %d, not %d", errFloor, release.SecureVersion, floor)
	}
	if err := p.makeSlots(s); err != nil {
		return err
	}
	tmp := filepath.Join(p.slot(s), newFile)
	defer os.Remove(tmp) // of a program that was refused; behind the rename there is none
	if err := p.copyStaged(ctx, tmp, artifact); err != nil {
		return err
	}
	about := About{SHA256: digest, Bytes: artifact.Bytes, Version: release.Version, Release: hexOf(payload), SecureVersion: release.SecureVersion, MinSecureVersion: release.MinSecureVersion,
		Factory: factory}
	return p.replace(s, tmp, about)
}

// packageFor is the digest of the factory program when the upgrade on trial began, as far as that is known: a package that was installed since, also before the slot is filled, has its turn when the upgrade is at rest.
func (p *Places) packageFor(ctx context.Context, r *upgrade.Record) string {
	if !onTrial(r.State) {
		return p.factoryDigest(ctx)
	}
	if r.Active == upgrade.Factory && r.From.SHA256 != "" { // it ran
		return r.From.SHA256
	}
	if known(r.Active) && r.Active != upgrade.Factory {
		if a, err := p.about(r.Active); err == nil && a.Factory != "" {
			return a.Factory
		}
	}
	return p.factoryDigest(ctx)
}

// makeSlots makes the directories, and clears away what is no slot: two at most are kept.
func (p *Places) makeSlots(s upgrade.Slot) error {
	for _, dir := range []string{p.Dir, filepath.Join(p.Dir, slotsDir), p.slot(s)} {
		if err := p.makeDir(dir); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(filepath.Join(p.Dir, slotsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := upgrade.Slot(e.Name()); name != upgrade.SlotA && name != upgrade.SlotB {
			if err := os.RemoveAll(filepath.Join(p.Dir, slotsDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyStaged copies first and verifies the copy: the agent's user may change the original at any time.
func (p *Places) copyStaged(ctx context.Context, tmp string, artifact *document.Artifact) error {
	from, err := p.openStaged(artifact.Bytes)
	if err != nil {
		return err
	}
	defer from.Close()
	first := ""
	if p.planted == faultVerifyFirst {
		first, _ = hashOf(ctx, io.NewSectionReader(from, 0, programMax))
	}
	p.step("copy")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	to, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	n, err := pour(ctx, to, io.LimitReader(from, artifact.Bytes+1))
	if err != nil {
		return fmt.Errorf("copy what was fetched: %w", err)
	}
	if n != artifact.Bytes {
		return fmt.Errorf("%w: %d bytes, not %d", errCopy, n, artifact.Bytes)
	}
	p.step("sync copy")
	if err := p.syncCopy(to); err != nil {
		return fmt.Errorf("copy what was fetched: %w", err)
	}
	p.step("verify copy")
	got, err := hashOf(ctx, io.NewSectionReader(to, 0, artifact.Bytes+1))
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	if p.planted == faultVerifyFirst {
		got = first
	}
	if got != artifact.SHA256 {
		return fmt.Errorf("%w: sha256 %.12s, not %.12s", errCopy, got, artifact.SHA256)
	}
	if err := to.Chmod(0o755); err != nil {
		return err
	}
	return p.syncCopy(to)
}

func (p *Places) syncCopy(f *os.File) error {
	if p.planted == faultNoSync {
		return nil
	}
	return f.Sync()
}

func (p *Places) openStaged(sizeMax int64) (*os.File, error) {
	name := filepath.Join(upgradeDir, stagedFile)
	if p.planted == faultFollow {
		return os.Open(filepath.Join(p.State, name))
	}
	return openGuarded(p.State, name, sizeMax)
}

// replace puts a verified copy into its place. Without about.json, which goes first and comes last, nothing in the slot counts as verified.
func (p *Places) replace(s upgrade.Slot, tmp string, about About) error {
	dir := p.slot(s)
	p.step("remove about")
	if err := p.dropAbout(s); err != nil {
		return err
	}
	if err := p.makeWay(p.program(s)); err != nil {
		return err
	}
	p.step("rename program")
	if err := os.Rename(tmp, p.program(s)); err != nil {
		return err
	}
	if err := p.syncDir(dir); err != nil {
		return err
	}
	return p.keepAbout(s, about)
}

// clear empties a slot, for good.
func (p *Places) clear(s upgrade.Slot) error {
	dir := p.slot(s)
	if s == upgrade.Factory {
		return nil
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.step("remove slot " + string(s))
	if err := p.dropAbout(s); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return p.syncDir(filepath.Dir(dir))
}

// release reads and verifies the manifest of the release on its way.
func (p *Places) release() (*document.Release, []byte, error) {
	trust, err := p.trust()
	if err != nil {
		return nil, nil, err
	}
	b, err := readGuarded(p.State, filepath.Join(upgradeDir, releaseFile), documentMax)
	if err != nil {
		return nil, nil, err
	}
	payload, err := trust.Verify(b, "release")
	if err != nil {
		return nil, nil, fmt.Errorf("release manifest: %w", err)
	}
	r, err := document.DecodeRelease(payload)
	if err != nil {
		return nil, nil, fmt.Errorf("release manifest: %w", err)
	}
	if r.Fleet != trust.Fleet() {
		return nil, nil, fmt.Errorf("release manifest: of fleet %q, not %q: %w", r.Fleet, trust.Fleet(), errRelease)
	}
	return r, payload, nil
}

// find gives the artifact of a digest for this processor and this backend.
func find(r *document.Release, arch, digest string) *document.Artifact {
	for i := range r.Artifacts {
		if a := &r.Artifacts[i]; a.Backend == backendSelf && a.Arch == arch && a.SHA256 == digest && digest != "" {
			return a
		}
	}
	return nil
}

func hexOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
