package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/store/disk"
)

// Chunks is where pieces of artifacts come from. Get gives a piece whole, or an error; it may be wrong in any way, but for its size, which the caller's memory has to bear: at most 4 MiB.
type Chunks interface {
	Get(ctx context.Context, sha string) ([]byte, error)
}

var (
	// ErrSpace: the disk is full. What was fetched stays, until Discard.
	ErrSpace = errors.New("the disk is too full for the artifact")
	// ErrArtifact: each piece is what the manifest names, and the whole is not. Another fetch gives the same.
	ErrArtifact = errors.New("the artifact is not what its manifest says")
	// ErrMedium: what was written and synced reads as something else, again and again.
	ErrMedium = errors.New("the disk does not keep what is written to it")
)

const (
	partFile, wholeFile, ofFile = "slot.part", "slot", "slot.of"

	// StallWait is how long a piece may take, and how long it is waited behind a failure, at first; both double up to stallMost. A slow link needs the former, a store that is away the latter.
	StallWait = 120 * time.Second
	stallMost = time.Hour
	// syncBytes is how much a power cut may cost, beside the piece that is under way: few syncs, little to fetch again.
	syncBytes = 4 << 20
	// mediumTries bounds how often damage is mended that was found behind a sync.
	mediumTries = 3
)

// Fetcher brings an artifact to flash. One Fetch at a time.
type Fetcher struct {
	FS     disk.FS
	Dir    string
	Chunks Chunks
	// Pause returns when the next piece, of so many bytes, may be asked for: bandwidth, metered links. nil: at once.
	Pause func(ctx context.Context, bytes int64) error
	// Progress is told how far it is, and why it waits; nil: nobody. Called from Fetch.
	Progress func(bytes int64, waits error)

	fault string // planted in tests
}

// spread has gateways whose store has failed at the same moment not come back at the same moment.
func spread(wait time.Duration) time.Duration { return pace.Jitter(wait, rand.Float64()) }

// Fetch gives the path of the whole artifact, verified and durable. It goes on from what an earlier call has left of the same artifact; what is left of another one is removed. It has no time limit: a piece that does not come is
// asked for again for ever. Errors: ctx's, ErrSpace, ErrArtifact, ErrMedium, those of the disk.
func (f *Fetcher) Fetch(ctx context.Context, a *document.Artifact) (string, error) {
	if n := (a.Bytes + a.ChunkBytes - 1) / max(a.ChunkBytes, 1); a.ChunkBytes <= 0 || a.Bytes <= 0 || n != int64(len(a.Chunks)) {
		return "", fmt.Errorf("%w: %d bytes in pieces of %d, and %d of them", ErrArtifact, a.Bytes, a.ChunkBytes, len(a.Chunks))
	}
	if err := f.claim(a); err != nil {
		return "", f.spaced(err, a.Bytes)
	}
	whole := filepath.Join(f.Dir, wholeFile)
	done, err := f.finished(whole, a)
	if done || err != nil {
		return whole, err
	}
	part, err := f.open()
	if err != nil {
		return "", f.spaced(err, a.Bytes)
	}
	d := &download{Fetcher: f, artifact: a, file: part}
	if err := errors.Join(d.run(ctx), part.Close()); err != nil {
		return "", f.spaced(err, a.Bytes-d.at)
	}
	if err := f.FS.Rename(filepath.Join(f.Dir, partFile), whole); err != nil {
		return "", fmt.Errorf("name the artifact: %w", err)
	}
	return whole, f.FS.SyncDir(f.Dir)
}

// Discard removes what was fetched. Repeating it is harmless.
func Discard(fsys disk.FS, dir string) (err error) {
	for _, name := range []string{partFile, wholeFile, ofFile} {
		if e := fsys.Remove(filepath.Join(dir, name)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if e := fsys.SyncDir(dir); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// claim makes the directory this artifact's. The files of another one are gone, durably, before the name of this one is there.
func (f *Fetcher) claim(a *document.Artifact) error {
	if err := f.FS.MkdirAll(f.Dir); err != nil {
		return fmt.Errorf("make %s: %w", f.Dir, err)
	}
	of := filepath.Join(f.Dir, ofFile)
	is, err := disk.ReadFile(f.FS, of)
	switch {
	case err == nil && strings.TrimSuffix(string(is), "\n") == a.SHA256:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read %s: %w", of, err)
	}
	if err := Discard(f.FS, f.Dir); err != nil {
		return fmt.Errorf("remove what was fetched of another artifact: %w", err)
	}
	return disk.WriteFileAtomic(f.FS, of, []byte(a.SHA256+"\n"))
}

func (f *Fetcher) open() (disk.File, error) {
	name := filepath.Join(f.Dir, partFile)
	file, err := f.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = f.FS.Create(name)
		if err == nil {
			err = f.FS.SyncDir(f.Dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return file, nil
}

// finished tells that an earlier call has come to its end. A file that is not the artifact any more is removed.
func (f *Fetcher) finished(whole string, a *document.Artifact) (bool, error) {
	file, err := f.FS.Open(whole)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", whole, err)
	}
	d := &download{Fetcher: f, artifact: a, file: file}
	size, err := file.Size()
	bad := 0
	if err == nil && size == a.Bytes {
		bad, err = d.verify(0, size)
	} else if err == nil {
		err = ErrArtifact
	}
	if err = errors.Join(err, file.Close()); err != nil && !errors.Is(err, ErrArtifact) {
		return false, err
	}
	if err == nil && bad < 0 {
		return true, f.FS.SyncDir(f.Dir) // the call before may have been killed right behind the rename
	}
	return false, errors.Join(f.FS.Remove(whole), f.FS.SyncDir(f.Dir))
}

// spaced has a full disk say how much is missing.
func (f *Fetcher) spaced(err error, need int64) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	free, _ := f.FS.Free(f.Dir) // for the sentence alone
	return fmt.Errorf("%w: %d bytes are missing of it, and %d are free at %s: %w", ErrSpace, need, free, f.Dir, err)
}

// download is one Fetch.
type download struct {
	*Fetcher
	artifact *document.Artifact
	file     disk.File
	at       int64 // bytes that are there and right
	synced   int64
}

func (d *download) chunkBytes(i int) int64 {
	return min(d.artifact.ChunkBytes, d.artifact.Bytes-int64(i)*d.artifact.ChunkBytes)
}

func (d *download) run(ctx context.Context) error {
	if err := d.resume(); err != nil {
		return err
	}
	for range mediumTries {
		for d.at < d.artifact.Bytes {
			if err := d.piece(ctx, int(d.at/d.artifact.ChunkBytes)); err != nil {
				return err
			}
		}
		if err := d.sync(); err != nil {
			return err
		}
		bad, err := d.verify(0, d.at)
		if err != nil || bad < 0 {
			return err
		}
		if err := d.cut(int64(bad) * d.artifact.ChunkBytes); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: pieces of %s were fetched %d times", ErrMedium, filepath.Join(d.Dir, partFile), mediumTries)
}

// resume finds the cursor: the length of the file, less a piece that was cut short, less what a power cut may have lost behind the last sync.
func (d *download) resume() error {
	size, err := d.file.Size()
	if err != nil {
		return err
	}
	chunk := d.artifact.ChunkBytes
	if d.at = min(size, d.artifact.Bytes); d.at < d.artifact.Bytes {
		d.at -= d.at % chunk
	}
	from := max(0, d.at-syncBytes-chunk) / chunk * chunk
	bad, err := d.verify(from, d.at)
	switch {
	case err != nil && !errors.Is(err, ErrArtifact):
		return err
	case bad >= 0:
		d.at = int64(bad) * chunk
	}
	if size == d.at {
		d.synced = from
		return nil
	}
	return d.cut(d.at)
}

// cut ends the file at at, durably: what is written behind it later must not meet what was there.
func (d *download) cut(at int64) error {
	d.at = at
	if err := d.file.Truncate(at); err != nil {
		return fmt.Errorf("cut %s: %w", partFile, err)
	}
	return d.sync()
}

func (d *download) sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", partFile, err)
	}
	d.synced = d.at
	return nil
}

// verify reads from a piece's beginning to the end of another one, and gives the first piece that is wrong, -1: none. When that is all of it, the whole has to be right as well: ErrArtifact.
func (d *download) verify(from, to int64) (bad int, err error) {
	if d.fault == "nothing is verified" {
		return -1, nil
	}
	whole, b := sha256.New(), make([]byte, d.artifact.ChunkBytes)
	for at := from; at < to; {
		i := int(at / d.artifact.ChunkBytes)
		n := d.chunkBytes(i)
		got, err := d.file.ReadAt(b[:n], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read %s: %w", d.Dir, err)
		}
		if int64(got) < n || !isSHA(b[:n], d.artifact.Chunks[i]) {
			return i, nil
		}
		_, _ = whole.Write(b[:n]) // a hash takes all
		at += n
	}
	if from == 0 && to == d.artifact.Bytes && hex.EncodeToString(whole.Sum(nil)) != d.artifact.SHA256 {
		return -1, fmt.Errorf("%w: each of its %d pieces is right, and its digest is not %s", ErrArtifact, len(d.artifact.Chunks), d.artifact.SHA256)
	}
	return -1, nil
}

func isSHA(b []byte, want string) bool {
	is := sha256.Sum256(b)
	return hex.EncodeToString(is[:]) == want
}

// piece gets one piece, however long that takes, and writes it behind the others.
func (d *download) piece(ctx context.Context, i int) error {
	for wait := StallWait; ; wait = min(2*wait, stallMost) {
		if d.Pause != nil {
			if err := d.Pause(ctx, d.chunkBytes(i)); err != nil {
				return err
			}
		}
		b, err := d.get(ctx, i, wait)
		if err == nil {
			return d.append(b)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.tell(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(spread(wait)):
		}
	}
}

func (d *download) get(ctx context.Context, i int, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("piece %d did not come within %s", i, limit))
	defer cancel()
	sha := d.artifact.Chunks[i]
	b, err := d.Chunks.Get(ctx, sha)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("get piece %d: %w", i, err)
	case int64(len(b)) != d.chunkBytes(i) || !isSHA(b, sha):
		return nil, fmt.Errorf("piece %d is not what the manifest names: %d bytes came, and sha256 %s is asked for", i, len(b), sha)
	}
	return b, nil
}

func (d *download) append(b []byte) error {
	if _, err := d.file.WriteAt(b, d.at); err != nil {
		return fmt.Errorf("write %s: %w", partFile, err)
	}
	d.at += int64(len(b))
	d.tell(nil)
	if d.at-d.synced >= syncBytes {
		return d.sync()
	}
	return nil
}

func (d *download) tell(waits error) {
	if d.Progress != nil {
		d.Progress(d.at, waits)
	}
}
