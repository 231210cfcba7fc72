package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// Count writes down, durably and before the program runs, that a program on trial has one start less; with none left, that the old one is to run again. It runs as the agent's user, between Link and Settle. Without an upgrade under
// way it reads one small file in memory and writes nothing.
func (p *Places) Count() error {
	b, err := p.Booted()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !b.Trial {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what was linked: %w", err)
	}
	if b.Start != p.Start || p.Start == "" {
		return errors.New("this start was not linked: the program on trial does not run")
	}
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(p.State, upgradeDir)}
	r, err := store.Read() // Save makes durable what counts
	if err != nil {
		return fmt.Errorf("read the record of upgrades: %w", err)
	}
	if !onTrial(r.State) {
		return nil
	}
	next, err := upgrade.Next(r, upgrade.Event{Kind: upgrade.Counted, Booted: r.Standby, Now: Now()})
	if err != nil {
		return fmt.Errorf("count a start: %w", err)
	}
	p.step("count")
	if err := store.Save(&next); err != nil {
		return fmt.Errorf("count a start: %w", err)
	}
	p.step("counted")
	if onTrial(next.State) {
		p.say(notice, "version %s is on trial; it has %d starts left behind this one", r.Target.Version, next.Tries)
	} else {
		p.say(warning, "version %s has no start left, and is gone back from", r.Target.Version)
	}
	return os.WriteFile(p.Counted, []byte(p.Start+"\n"), 0o640)
}

// counted tells that Count has counted this start: it left its name. Where systemd names no starts, none counts.
func (p *Places) counted() bool {
	b, err := readGuarded(filepath.Dir(p.Counted), filepath.Base(p.Counted), smallMax)
	return err == nil && p.Start != "" && strings.TrimSpace(string(b)) == p.Start
}
