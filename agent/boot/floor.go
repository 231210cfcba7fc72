package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// floor is the least secure version that is run: the higher one of two files, as far as they can be read. A floor that cannot be read keeps every slot from running, and flash loses files.
func (p *Places) floor() (floor uint64, err error) {
	readable := false
	for _, name := range []string{floorFile, floorCopy} {
		n, there, rerr := p.readFloor(filepath.Join(p.Dir, name))
		if rerr != nil {
			err = errors.Join(err, rerr)
		} else if there {
			floor, readable = max(floor, n), true
		}
	}
	if readable {
		return floor, nil
	}
	return 0, err
}

func (p *Places) readFloor(name string) (n uint64, there bool, err error) {
	b, there, err := readOwn(name, p.Owner, floorMax)
	if err != nil || !there {
		return 0, there, err
	}
	number, sum, summed := strings.Cut(strings.TrimSpace(string(b)), floorSum)
	if n, err = strconv.ParseUint(number, 10, 64); err == nil && summed && sum != disk.SumOf([]byte(number)) { // an operator writes the number alone
		err = disk.ErrSum
	}
	if err != nil {
		return 0, true, fmt.Errorf("%s is damaged: want one number, the secure version of what was committed last", name)
	}
	return n, true, nil
}

// floorSum is between the number and its checksum: a bit that flash changes must not make a floor that no program reaches.
const floorSum = " crc32c="

// raiseFloor writes the copy first: a crash behind it has raised the floor.
func (p *Places) raiseFloor(to uint64) error {
	number := strconv.AppendUint(nil, to, 10)
	number = append(number, floorSum+disk.SumOf(number)+"\n"...)
	for _, name := range []string{floorCopy, floorFile} {
		if err := p.keep(filepath.Join(p.Dir, name), number); err != nil {
			return err
		}
	}
	return nil
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
