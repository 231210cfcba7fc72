package boot

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
	"syscall"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// About is what the helper knows of the program in a slot. It is written behind the program, and removed before that is changed: a slot without it has nothing that was verified.
type About struct {
	Sum              string `json:"sum,omitempty"` // of this file (summed); "": an earlier helper wrote it
	SHA256           string `json:"sha256"`
	Bytes            int64  `json:"bytes"`
	Version          string `json:"version"`
	Release          string `json:"release"` // sha256 of the manifest's payload
	SecureVersion    uint64 `json:"secure_version"`
	MinSecureVersion uint64 `json:"min_secure_version"`
	Factory          string `json:"factory,omitempty"` // sha256 of the factory program when the upgrade began that has filled the slot; "": it could not be read
}

// Why a slot cannot be run.
var (
	errEmpty   = errors.New("nothing that was verified is in it")
	errOther   = errors.New("another program is in it")
	errDamaged = errors.New("its program is not what was verified")
	errFloor   = errors.New("its secure version is below the floor")
	errUnknown = errors.New("there is no such slot")
)

// about reads what is known of a slot. Its file that is there and damaged has a copy: without one a single bit would have the slot count as empty.
func (p *Places) about(s upgrade.Slot) (About, error) {
	a, err := p.aboutIn(filepath.Join(p.slot(s), aboutFile))
	if err == nil || errors.Is(err, errEmpty) || errors.Is(err, errStrange) {
		return a, err
	}
	if c, cerr := p.aboutIn(filepath.Join(p.slot(s), aboutCopy)); cerr == nil && c.Sum != "" {
		return c, nil
	}
	return a, err
}

func (p *Places) aboutIn(name string) (a About, err error) {
	b, there, err := readOwn(name, p.Owner, smallMax)
	switch {
	case err != nil:
		return About{}, err
	case !there:
		return About{}, errEmpty
	}
	if err = json.Unmarshal(b, &a); err == nil {
		err = disk.CheckSum(b, a.Sum)
	}
	if err != nil {
		return About{}, fmt.Errorf("read %s: %w", name, err)
	}
	return a, nil
}

// keepAbout writes the copy first: what is verified of a slot is said by the other file alone.
func (p *Places) keepAbout(s upgrade.Slot, a About) error {
	a.Sum = disk.SumZero
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	b = disk.Summed(append(b, '\n'))
	for _, name := range []string{aboutCopy, aboutFile} {
		if err := p.keep(filepath.Join(p.slot(s), name), b); err != nil {
			return err
		}
	}
	return nil
}

// dropAbout has nothing in a slot count as verified, durably.
func (p *Places) dropAbout(s upgrade.Slot) error {
	for _, name := range []string{aboutFile, aboutCopy} {
		if err := os.RemoveAll(filepath.Join(p.slot(s), name)); err != nil {
			return err
		}
	}
	return p.syncDir(p.slot(s))
}

// check tells why a slot's program cannot be run: it must have been verified, have the digest, not be below the floor, and still be what it was. Its bytes are hashed once per boot, and again with anew; in between its inode, size
// and times stand for it, which only root could keep the same over a change.
func (p *Places) check(ctx context.Context, s upgrade.Slot, digest string, floor uint64, anew bool) (About, error) {
	a, err := p.about(s)
	switch {
	case err != nil:
		return a, err
	case digest != "" && a.SHA256 != digest:
		return a, fmt.Errorf("%w: %.12s, not %.12s", errOther, a.SHA256, digest)
	case a.SecureVersion < floor && p.planted != faultNoFloor:
		return a, fmt.Errorf("%w: %d, not %d", errFloor, a.SecureVersion, floor)
	}
	name := p.program(s)
	info, err := os.Lstat(name)
	if err != nil {
		return a, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err := private(name, info, p.Owner); err != nil {
		return a, err
	}
	if !info.Mode().IsRegular() || info.Size() != a.Bytes || info.Mode().Perm()&0o555 != 0o555 {
		return a, fmt.Errorf("%w: %d bytes of %d, mode %v", errDamaged, info.Size(), a.Bytes, info.Mode())
	}
	got, err := p.digest(ctx, name, info, anew)
	if err != nil {
		return a, err
	}
	if got != a.SHA256 {
		return a, fmt.Errorf("%w: sha256 %.12s, not %.12s", errDamaged, got, a.SHA256)
	}
	return a, nil
}

// seen is a file as it was when its bytes were hashed.
type seen struct {
	Dev    uint64 `json:"dev"`
	Inode  uint64 `json:"inode"`
	Bytes  int64  `json:"bytes"`
	Mtime  int64  `json:"mtime_ns"`
	Ctime  int64  `json:"ctime_ns"`
	SHA256 string `json:"sha256"`
}

// digest gives the sha256 of a file that only root can write, from memory (Places.Run) if it is still the one that was hashed.
func (p *Places) digest(ctx context.Context, name string, info fs.FileInfo, anew bool) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("stat %s: %w", name, errStrange)
	}
	now := seen{Dev: uint64(st.Dev), Inode: st.Ino, Bytes: info.Size(), Mtime: info.ModTime().UnixNano(), Ctime: int64(st.Ctim.Sec)*1e9 + int64(st.Ctim.Nsec)}
	cache := map[string]seen{}
	if _, err := p.readJSON(filepath.Join(p.Run, verifiedFile), &cache); err != nil {
		cache = map[string]seen{} // in memory, and only to save work
	}
	if before := cache[name]; (!anew || p.planted == faultNoDigest) && before.SHA256 != "" {
		now.SHA256 = before.SHA256
		if now == before || p.planted == faultNoDigest {
			return before.SHA256, nil
		}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if now.SHA256, err = hashOf(ctx, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	cache[name] = now
	_ = p.note(verifiedFile, cache) // without it the next start hashes again
	return now.SHA256, nil
}

// factoryDigest is the digest of the factory program; "": it cannot be read.
func (p *Places) factoryDigest(ctx context.Context) string {
	name := p.program(upgrade.Factory)
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	got, err := p.digest(ctx, name, info, false)
	if err != nil {
		return ""
	}
	return got
}

func hashOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := pour(ctx, h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// pour copies with little memory, and ends with its context.
func pour(ctx context.Context, w io.Writer, r io.Reader) (n int64, err error) {
	buf := make([]byte, 128<<10)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf)
		if _, err := w.Write(buf[:k]); err != nil {
			return n, err
		}
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
