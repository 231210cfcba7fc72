package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// step is called in front of each step that changes what is on flash.
func (p *Places) step(name string) {
	if p.hook != nil {
		p.hook(name)
	}
}

// keep replaces a file of the helper's own, durably: after a crash the name has either the old content or the new one.
func (p *Places) keep(name string, data []byte) error {
	base := filepath.Base(name)
	p.step("write " + base)
	tmp := name + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove %s: %w", tmp, err)
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	_, err = f.Write(data)
	if err == nil {
		p.step("sync " + base)
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(tmp) // of a full disk it gives the space back; a leftover is harmless
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := p.makeWay(name); err != nil {
		return err
	}
	p.step("rename " + base)
	if err := os.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename %s: %w", tmp, err)
	}
	return p.syncDir(filepath.Dir(name))
}

// asideSuffix is of a directory that lay where a file or a link of the helper's has to be.
const asideSuffix = ".aside"

// makeWay sets a directory aside that lies in the place of a file or a link, as a copy of the helper's directory has one that followed the link. A rename does not replace it, and nothing would ever be linked again.
func (p *Places) makeWay(name string) error {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	aside := name + asideSuffix
	p.say(warning, "%s is a directory, and is set aside as %s", name, aside)
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	p.step("set aside " + filepath.Base(name))
	return os.Rename(name, aside)
}

func (p *Places) syncDir(dir string) error {
	p.step("sync directory " + filepath.Base(dir))
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// makeDir makes a directory of the helper's own, durably, for everybody to read and execute. One that is there must be a directory that its owner alone writes to.
func (p *Places) makeDir(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		p.step("make directory " + filepath.Base(dir))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return p.syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return err
	}
	return private(dir, info, p.Owner)
}

// private refuses what anybody but the owner can write to.
func private(name string, info fs.FileInfo, owner int) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: %w: it is a link; to have it on another disk, mount that there (mount --bind)", name, errStrange)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != owner || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w: it must belong to user %d, who alone may write to it", name, errStrange, owner)
	}
	return nil
}

// readOwn reads a small file of the helper's own. there is false when it is missing.
func readOwn(name string, owner int, sizeMax int64) (b []byte, there bool, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, true, err
	}
	if err := private(name, info, owner); err != nil {
		return nil, true, err
	}
	if !info.Mode().IsRegular() || info.Size() > sizeMax {
		return nil, true, fmt.Errorf("%s: %w", name, errStrange)
	}
	b = make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, true, err
}

// smallMax is the size of the helper's own files, less root documents.
const smallMax = 64 << 10

// floorMax is more than a number has.
const floorMax = 64

func (p *Places) keepJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return p.keep(name, append(b, '\n'))
}

// readJSON reads what keepJSON wrote.
func (p *Places) readJSON(name string, v any) (there bool, err error) {
	b, there, err := readOwn(name, p.Owner, smallMax)
	if err != nil || !there {
		return there, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return true, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

// note writes a file in memory (Places.Run): whole, but not durable.
func (p *Places) note(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := filepath.Join(p.Run, name+".tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o644); err != nil { // the agent's user reads it, whatever the unit's UMask=
		return err
	}
	return os.Rename(tmp, filepath.Join(p.Run, name))
}

func (p *Places) forget(name string) {
	os.Remove(filepath.Join(p.Run, name)) // in memory; what stays is told by the next write
}
