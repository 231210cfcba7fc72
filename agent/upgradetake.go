//go:build !nocentral

package agent

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
	"runtime"
	"slices"
	"syscall"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// The files of an upgrade beside its record.
const (
	releaseFile = "release.json" // the signed manifest
	localFile   = "local.json"   // where the artifact lies, and which config runs
	slotFile    = "slot"         // all of it, where weir-boot looks (agent/upgrade/slots)
)

// local is what an order of this device's own says, beyond the record.
type local struct {
	File   string `json:"file"`             // the artifact; absolute. "": its pieces are in the fleet's depot
	Config string `json:"config"`           // digest of the config that runs
	Window string `json:"window,omitempty"` // of the policy
}

func (u *upgrader) path(name string) string { return filepath.Join(u.store.Dir, name) }

func (u *upgrader) readLocal() (l local, err error) {
	_, err = record.Read(disk.OS, u.path(localFile), statedir.Small(localFile), &l)
	return l, err
}

// readKept is the digest of the config that the upgrade under way began with: the file may have been changed since, and is not what S is of.
func (u *upgrader) readKept() (string, error) {
	l, err := u.readLocal()
	return l.Config, err
}

// trust is the newest root document that this device knows. One that is damaged here keeps nobody from what is known: the store has it, and it is kept anew.
func (u *upgrader) trust() (*signed.Trust, error) {
	file := u.agent.config.Fleet.Root
	if file == "" {
		return nil, errors.New("fleet.root is not set: nobody's signature counts here")
	}
	b, err := disk.ReadPlain(file, signed.BytesMax)
	if err != nil {
		return nil, fmt.Errorf("fleet.root: %w", err)
	}
	t, err := signed.NewTrust(b)
	if err != nil {
		return nil, fmt.Errorf("fleet.root %s: %w", file, err)
	}
	for {
		b, err := disk.ReadPlain(u.path(fmt.Sprintf("root-%d.json", t.Version()+1)), signed.BytesMax)
		if errors.Is(err, fs.ErrNotExist) {
			return t, nil
		}
		if err == nil {
			err = t.Advance(b)
		}
		if err != nil {
			u.agent.log.Warn("a root document is not taken; the one before counts until it is read from the store", "version", t.Version()+1, "error", err)
			return t, nil
		}
	}
}

// ask takes an order up: it is verified, and recorded.
func (u *upgrader) ask(ctx context.Context, k *upgradeAsk) error {
	if u.owed != nil {
		return fmt.Errorf("%w: it has ended, and its pipelines could not be started yet: ask again then; the log says why", errUpgrading)
	}
	if err := u.reach(ctx); err != nil {
		return err
	}
	payload, artifact, err := u.verify(k.o.Release)
	if err != nil && k.by == nil {
		return fmt.Errorf("the release does not count here: %w (weir keys verify RELEASE.json --root %s tells what it is, and who has signed it)", err, u.agent.config.Fleet.Root)
	}
	if err != nil {
		return err
	}
	if k.o.File == "" {
		return u.accept(k, payload, artifact)
	}
	sum, size, err := sumOf(k.o.File)
	if err != nil {
		return fmt.Errorf("the agent cannot read %s: %w; it runs as its own user, and sees no home directories: put the file where it may", k.o.File, err)
	}
	if sum != artifact.SHA256 {
		return fmt.Errorf("%s has %d bytes and sha256 %s, and the release's artifact for this gateway has %d and %s: it is not the program that the release was made of", k.o.File, size, sum, artifact.Bytes, artifact.SHA256)
	}
	return u.accept(k, payload, artifact)
}

// verify gives the release's payload, and its artifact for this gateway.
func (u *upgrader) verify(envelope []byte) (*release, *document.Artifact, error) {
	t, err := u.trust()
	if err != nil {
		return nil, nil, err
	}
	payload, err := t.Verify(envelope, signed.TypeRelease)
	if err != nil {
		return nil, nil, err // it names the type
	}
	doc, err := document.DecodeRelease(payload)
	if err != nil {
		return nil, nil, fmt.Errorf("release: %w", err)
	}
	if doc.Fleet != t.Fleet() {
		return nil, nil, fmt.Errorf("the release is of fleet %s, and this gateway is of %s", doc.Fleet, t.Fleet())
	}
	if doc.SecureVersion < u.rec.Floor {
		return nil, nil, fmt.Errorf("the release has secure version %d, and what was committed here asks for %d at least: it has holes that are closed", doc.SecureVersion, u.rec.Floor)
	}
	artifact, err := doc.Find(u.agent.config.Upgrade.Backend, runtime.GOARCH, u.agent.config.On.ID)
	if err != nil {
		return nil, nil, err
	}
	return &release{Release: doc, envelope: envelope, digest: sha256.Sum256(payload)}, artifact, nil
}

// release is a verified one.
type release struct {
	*document.Release
	envelope []byte
	digest   [32]byte
}

// accept records the order. What the record tells of is durable before.
func (u *upgrader) accept(k *upgradeAsk, r *release, artifact *document.Artifact) error {
	a := u.agent
	from, err := u.self()
	if err != nil {
		return err
	}
	standby, err := u.standby()
	if err != nil {
		return err
	}
	rec := upgrade.Record{
		Target: upgrade.Target{Release: hex.EncodeToString(r.digest[:]), Version: r.Version, Backend: artifact.Backend, SHA256: artifact.SHA256, Bytes: artifact.Bytes,
			SecureVersion: r.SecureVersion, MinSecureVersion: r.MinSecureVersion},
		From: from, Active: u.here.Booted, Standby: standby, UploadS: k.o.UploadSavepoints, Discard: k.o.DiscardState, Probation: a.config.Upgrade.Probation.Milliseconds(),
	}
	k.by.mark(&rec)
	a.changing.Lock() // an apply and an upgrade exclude each other
	defer a.changing.Unlock()
	if was := a.applier.record(); !was.Resting() && !u.here.Rescue { // in a rescue it stands, and would for ever
		return fmt.Errorf("%w: it is %s, and ends by itself, committed or gone back from: ask for the upgrade again then; why one stands, weir status and the log say", ErrApplying, was.State)
	}
	e := upgrade.Event{Kind: upgrade.Asked, Record: rec, Rescue: u.here.Rescue, Again: k.o.Again}
	if _, err := upgrade.Next(u.rec, e); err != nil {
		return err
	}
	u.tidy()
	cfg := a.roster.Load().config
	if err := a.applier.store.Keep(cfg); err != nil {
		return err
	}
	if err := disk.OS.MkdirAll(u.store.Dir); err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(disk.OS, u.path(releaseFile), r.envelope); err != nil {
		return fmt.Errorf("keep the release: %w", err)
	}
	if err := record.Write(disk.OS, u.path(localFile), local{File: k.o.File, Config: cfg.Digest(), Window: k.by.window()}); err != nil {
		return fmt.Errorf("keep the order: %w", err)
	}
	if err := u.note(e); err != nil {
		return err
	}
	u.tally = map[string]uint64{} // what failed for the one before says nothing of this one
	return nil
}

// self is the program that runs.
func (u *upgrader) self() (t upgrade.Target, err error) {
	sum, n, err := sumOf("/proc/self/exe")
	if err != nil {
		return t, fmt.Errorf("read the program that runs: %w", err)
	}
	t = upgrade.Target{Version: Version(), Backend: u.agent.config.Upgrade.Backend, SHA256: sum, Bytes: n}
	if u.rec.State == upgrade.Committed && u.here.Booted == u.rec.Standby {
		t.Release, t.SecureVersion, t.MinSecureVersion = u.rec.Target.Release, u.rec.Target.SecureVersion, u.rec.Target.MinSecureVersion
	}
	return t, nil
}

// sumOf is the digest of a regular file, hex, and its size.
func sumOf(name string) (string, int64, error) {
	f, err := disk.OpenPlain(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), n, err
}

// standby is the slot that the new program is put into: none that runs, and not what the package brought.
func (u *upgrader) standby() (upgrade.Slot, error) {
	for _, s := range append(slices.Clone(u.caps.Slots), upgrade.SlotA, upgrade.SlotB) {
		if s != u.here.Booted && s != upgrade.Factory && s != "" {
			return s, nil
		}
	}
	return "", errors.New("there is no slot to put another program into")
}

// tidy removes what earlier upgrades have left: their savepoints, but those that the record still holds (of an upgrade that a rescue cut short), and their artifact. What cannot be removed now is the next time.
func (u *upgrader) tidy() {
	names, err := filepath.Glob(filepath.Join(restore.SavepointDir(u.agent.config), upgradeSavepoints+"*"+restore.SavepointSuffix))
	for _, name := range names {
		if owed := slices.ContainsFunc(u.rec.Savings, func(s upgrade.Saving) bool { return filepath.Base(s.Savepoint) == filepath.Base(name) }); !owed || !u.rec.Holds() {
			err = errors.Join(err, os.Remove(name))
		}
	}
	err = errors.Join(err, u.makeWay(append(slices.Clone(fetchedFiles), releaseFile, localFile)...))
	err = errors.Join(err, upgrade.Discard(disk.OS, u.store.Dir))
	if err != nil {
		u.agent.log.Warn("what an earlier upgrade kept could not be removed", "error", err)
	}
}

// makeWay removes what lies in the place of a file of an upgrade and is none of weir's: a directory, which a rename does not replace; a pipe or a device; a link or a second name, by which something else would be written over; a file that cannot
// be written.
func (u *upgrader) makeWay(names ...string) (err error) {
	for _, name := range names {
		for _, name := range []string{u.path(name), u.path(name) + ".tmp"} {
			info, lerr := os.Lstat(name)
			if lerr != nil || own(name, info) {
				continue
			}
			u.agent.log.Warn("what lies in the place of a file of the upgrade is removed", "file", name, "is", info.Mode().String())
			err = errors.Join(err, os.RemoveAll(name))
		}
	}
	return err
}

// own tells a regular file with one name that this process may write.
func own(name string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || st.Nlink > 1 {
		return false
	}
	f, err := disk.OS.Open(name)
	if err == nil {
		err = f.Close()
	}
	return !errors.Is(err, fs.ErrPermission)
}

// fetchedFiles are those that a fetch writes.
var fetchedFiles = []string{slotFile, slotFile + ".part", slotFile + ".of"}

// clean removes what was fetched.
func (u *upgrader) clean(ctx context.Context) {
	if u.backend != nil && u.rec.Standby != "" && u.rec.Standby != u.here.Booted {
		if err := u.backend.Abort(ctx, u.rec.Standby); err != nil {
			u.agent.log.Warn("what was staged could not be removed", "slot", string(u.rec.Standby), "error", err)
		}
	}
	if err := upgrade.Discard(disk.OS, u.store.Dir); err != nil {
		u.agent.log.Warn("what an earlier upgrade kept could not be removed", "error", err)
	}
}
