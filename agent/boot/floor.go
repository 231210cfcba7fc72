package boot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/weirstream/weir/agent/upgrade"
)

// floor is the least secure version that is run.
func (p *Places) floor() (uint64, error) {
	b, there, err := readOwn(filepath.Join(p.Dir, floorFile), p.Owner, smallMax)
	if err != nil || !there {
		return 0, err
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", filepath.Join(p.Dir, floorFile), err)
	}
	return n, nil
}

func (p *Places) raiseFloor(to uint64) error {
	return p.keep(filepath.Join(p.Dir, floorFile), strconv.AppendUint(nil, to, 10))
}

// committed raises the floor to what the release asks for, once its program has been committed, and empties slots below it.
func (p *Places) committed(s upgrade.Slot) {
	about, err := p.about(s)
	if err != nil {
		return
	}
	floor, err := p.floor()
	if err != nil || about.MinSecureVersion <= floor {
		return
	}
	if err := p.syncRecord(); err != nil {
		p.say(failure, "make the record durable: %v", err)
		return
	}
	if err := p.raiseFloor(about.MinSecureVersion); err != nil {
		p.say(failure, "raise the floor of secure versions: %v", err)
		return
	}
	p.say(notice, "the floor of secure versions is %d", about.MinSecureVersion)
	for _, other := range []upgrade.Slot{upgrade.SlotA, upgrade.SlotB} {
		if a, err := p.about(other); other != s && err == nil && a.SecureVersion < about.MinSecureVersion {
			if err := p.clear(other); err != nil {
				p.say(warning, "empty slot %s: %v", other, err)
			}
		}
	}
}

// syncRecord: a commit that only the page cache knows of must not raise the floor. Behind a power cut it would not have been, and the way back would lie below the floor.
func (p *Places) syncRecord() error {
	for _, name := range []string{"rec.0", "rec.1"} {
		f, err := openGuarded(p.State, filepath.Join(upgradeDir, name), recordMax)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p.step("sync " + name)
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
