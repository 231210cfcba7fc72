// Package slots is the backend self: the agent's program alone is exchanged. It puts what was fetched where the helper (weir-boot) finds it, and asks what the helper has linked; all else the helper derives from the record at the next
// start, which is why most acts of this backend are none. What was staged is durable when Stage returns.
package slots

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// Why the backend cannot be used.
var (
	// ErrNoHelper comes where the process was not started through weir-boot: another one than the service, or a unit without it.
	ErrNoHelper = errors.New("weir-boot has not started this process")
	// ErrSlot comes for a slot that this backend does not write.
	ErrSlot = errors.New("no slot that can be written")
	// ErrArtifact comes for an artifact that is not what its target says.
	ErrArtifact = errors.New("the artifact is not what its manifest names")
)

// Backend is upgrade.Backend by slots of weir-boot. Its fields are set before it is used.
type Backend struct {
	FS    disk.FS
	State string // state_dir
	Boot  string // the helper's directory, /var/lib/weir-boot
	Run   string // what the helper says of this start, /run/weir-boot
	Exe   string // the running program: what /proc/self/exe names
	Start string // INVOCATION_ID of this start
	// End has the process stop as it does at SIGTERM, with exit code 0: the service manager starts it again (Restart=always).
	End func()
}

var _ upgrade.Backend = (*Backend)(nil)

// Standard is the backend of the service.
func Standard(stateDir string, end func()) (*Backend, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("ask which program runs: %w", err)
	}
	state, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, err
	}
	return &Backend{FS: disk.OS, State: state, Boot: "/var/lib/weir-boot", Run: "/run/weir-boot", Exe: exe, Start: os.Getenv("INVOCATION_ID"), End: end}, nil
}

// stagedFile is where the helper looks for what was fetched.
const stagedFile = "slot"

func (b *Backend) staged() string { return filepath.Join(b.State, "upgrade", stagedFile) }

// told is what the helper says of a start: /run/weir-boot/booted.
type told struct {
	Slot   upgrade.Slot `json:"slot"`
	Start  string       `json:"start"`
	State  string       `json:"state_dir"`
	Taken  string       `json:"taken"`
	Rescue string       `json:"rescue"`
}

// tells reads it. It is read as a file of the system, not through FS: it lies in memory and belongs to root.
func (b *Backend) tells() (t told, err error) {
	text, err := os.ReadFile(filepath.Join(b.Run, "booted"))
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("%w: it left no %s", ErrNoHelper, filepath.Join(b.Run, "booted"))
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, fmt.Errorf("read what weir-boot has linked: %w", err)
	}
	switch {
	case t.Start != b.Start || t.Start == "":
		return t, fmt.Errorf("%w: it has linked for start %q, and this is %q", ErrNoHelper, t.Start, b.Start)
	case filepath.Clean(t.State) != filepath.Clean(b.State):
		return t, fmt.Errorf("%w: it looks at %s, and state_dir is %s (WEIR_BOOT_STATE in docs/upgrade.md)", ErrNoHelper, t.State, b.State)
	}
	return t, nil
}

// Probe tells the slots, or why there is no helper.
func (b *Backend) Probe(ctx context.Context) (upgrade.Caps, error) {
	if _, err := b.tells(); err != nil {
		return upgrade.Caps{}, err
	}
	return upgrade.Caps{Slots: []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB}}, ctx.Err()
}

// Booted is where the running program lies. One that is in no slot is the factory's when the helper says that it linked that.
func (b *Backend) Booted(ctx context.Context) (upgrade.Slot, error) {
	exe := strings.TrimSuffix(b.Exe, " (deleted)")
	for _, s := range []upgrade.Slot{upgrade.SlotA, upgrade.SlotB} {
		if filepath.Dir(exe) == filepath.Join(b.Boot, "slots", string(s)) {
			return s, ctx.Err()
		}
	}
	t, err := b.tells()
	if err != nil {
		return "", err
	}
	if t.Slot != upgrade.Factory {
		return "", fmt.Errorf("%w: it linked slot %s, and %s runs", ErrNoHelper, t.Slot, exe)
	}
	return upgrade.Factory, ctx.Err()
}

// Helped is what the helper says of this start besides: why the factory program runs in place of what the record asks for (upgrade.Replaced), or that it is in rescue. Both are "" in an ordinary start.
func (b *Backend) Helped() (taken, rescue string, err error) {
	t, err := b.tells()
	return t.Taken, t.Rescue, err
}

// Refused is why the helper has not run a slot in this start.
func (b *Backend) Refused(slot upgrade.Slot) (string, error) {
	if _, err := b.tells(); err != nil { // it is of this start
		return "", err
	}
	var list []struct {
		Slot upgrade.Slot `json:"slot"`
		Why  string       `json:"why"`
	}
	if err := b.note("refused", &list); err != nil {
		return "", err
	}
	for _, r := range list {
		if r.Slot == slot {
			return r.Why, nil
		}
	}
	return "", nil
}

// Killed is how a program was ended on trial before this start: by the service manager's watchdog, or for want of memory.
func (b *Backend) Killed(sha256 string) (string, error) {
	var e struct {
		SHA256 string `json:"sha256"`
		How    string `json:"how"`
	}
	if err := b.note("ended", &e); err != nil || e.SHA256 != sha256 {
		return "", err
	}
	return e.How, nil
}

// note reads a file of the helper's; what is not there leaves v as it is.
func (b *Backend) note(name string, v any) error {
	text, err := os.ReadFile(filepath.Join(b.Run, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read what weir-boot notes: %w", err)
	}
	return nil
}

// Stage copies the artifact to where the helper looks, and verifies it once more on the way: nothing else comes there. One that is there already is left as it is, another one makes room first.
func (b *Backend) Stage(ctx context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(permille int)) error {
	if err := b.writable(ctx, slot); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int) {}
	}
	switch there, err := b.holds(ctx, a.Target); {
	case err != nil:
		return err
	case there:
		progress(1000)
		return nil
	}
	if err := b.drop(); err != nil {
		return err
	}
	from, closeFrom, err := b.open(a)
	if err != nil {
		return err
	}
	defer closeFrom()
	name := b.staged()
	if err := b.FS.MkdirAll(filepath.Dir(name)); err != nil {
		return fmt.Errorf("make %s: %w", filepath.Dir(name), err)
	}
	if err := b.copy(ctx, name+".tmp", from, a.Target, progress); err != nil {
		if gone := b.FS.Remove(name + ".tmp"); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return errors.Join(err, gone)
		}
		return err // the space is given back
	}
	if err := b.FS.Rename(name+".tmp", name); err != nil {
		return fmt.Errorf("stage %s: %w", a.Target.Version, err)
	}
	if err := b.FS.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("stage %s: %w", a.Target.Version, err)
	}
	return nil
}

// writable refuses a slot that is none, the factory's, and the one that runs.
func (b *Backend) writable(ctx context.Context, slot upgrade.Slot) error {
	if slot != upgrade.SlotA && slot != upgrade.SlotB {
		return fmt.Errorf("%w: %q", ErrSlot, slot)
	}
	booted, err := b.Booted(ctx)
	if err == nil && booted == slot {
		err = fmt.Errorf("%w: slot %s runs", ErrSlot, slot)
	}
	return err
}

func (b *Backend) open(a upgrade.Artifact) (io.ReaderAt, func() error, error) {
	if a.ReaderAt != nil {
		return a.ReaderAt, func() error { return nil }, nil
	}
	f, err := b.FS.Open(a.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the artifact: %w", err)
	}
	return f, f.Close, nil
}

// stageBuffer is read and written at once.
const stageBuffer = 256 << 10

func (b *Backend) copy(ctx context.Context, name string, from io.ReaderAt, t upgrade.Target, progress func(int)) (err error) {
	if err := b.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	to, err := b.FS.Create(name)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	sum, buf := sha256.New(), make([]byte, stageBuffer)
	for at := int64(0); at < t.Bytes; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(buf[:min(int64(len(buf)), t.Bytes-at)], at)
		if n == 0 {
			return fmt.Errorf("%w: it ends at %d of %d bytes: %w", ErrArtifact, at, t.Bytes, err)
		}
		sum.Write(buf[:n])
		if _, err := to.WriteAt(buf[:n], at); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		at += int64(n)
		progress(int(at * 999 / t.Bytes))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != t.SHA256 {
		return fmt.Errorf("%w: sha256 %.12s, not %.12s", ErrArtifact, got, t.SHA256)
	}
	if err := to.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	progress(1000)
	return nil
}

// holds tells that the artifact is staged, durably: only a whole and synced one ever gets the name.
func (b *Backend) holds(ctx context.Context, t upgrade.Target) (bool, error) {
	f, err := b.FS.Open(b.staged())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open what was staged: %w", err)
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || size != t.Bytes {
		return false, err
	}
	sum, buf := sha256.New(), make([]byte, stageBuffer)
	for at := int64(0); at < t.Bytes; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := f.ReadAt(buf, at)
		if n == 0 {
			return false, fmt.Errorf("read what was staged: %w", err)
		}
		sum.Write(buf[:n])
		at += int64(n)
	}
	if hex.EncodeToString(sum.Sum(nil)) != t.SHA256 {
		return false, nil
	}
	return true, b.FS.SyncDir(filepath.Dir(b.staged())) // the rename may not have come so far
}

// Activate only looks whether there is something to run: the record, in Switched, is what the helper goes by at the next start. That is what was staged or, once the helper has copied it, what is in the slot.
func (b *Backend) Activate(ctx context.Context, slot upgrade.Slot, _ int) error {
	if slot != upgrade.SlotA && slot != upgrade.SlotB {
		return fmt.Errorf("%w: %q", ErrSlot, slot)
	}
	f, err := b.FS.Open(b.staged())
	if err == nil {
		return errors.Join(f.Close(), ctx.Err())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open what was staged: %w", err)
	}
	if _, err := os.Stat(filepath.Join(b.Boot, "slots", string(slot), "about.json")); err != nil {
		return fmt.Errorf("%w: nothing was staged, and slot %s is empty: %w", ErrSlot, slot, err)
	}
	return ctx.Err()
}

// Restart has the process end; the service manager starts it through the helper.
func (b *Backend) Restart(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.End()
	return nil
}

// Commit gives the space of what was staged back. The helper has its own copy.
func (b *Backend) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.drop()
}

// Revert does nothing but Abort: by the record, in Rollback, the helper links the old slot.
func (b *Backend) Revert(ctx context.Context, _ upgrade.Slot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.drop()
}

// Abort removes what Stage has put there.
func (b *Backend) Abort(ctx context.Context, slot upgrade.Slot) error {
	if err := b.writable(ctx, slot); err != nil {
		return err
	}
	return b.drop()
}

func (b *Backend) drop() error {
	gone := false
	for _, name := range []string{b.staged(), b.staged() + ".tmp"} {
		switch err := b.FS.Remove(name); {
		case err == nil:
			gone = true
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	if !gone {
		return nil
	}
	return b.FS.SyncDir(filepath.Dir(b.staged()))
}
