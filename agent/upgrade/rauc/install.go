package rauc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/bus"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// Stage has RAUC write a bundle into the slot that does not run, and leaves it so that the boot loader does not start it. It ends when RAUC says how it ended, when RAUC dies, or with its context; in the last case RAUC goes on, and the
// next call waits for that. A bundle that is there whole is not written again. An artifact without a path is copied into state_dir for RAUC, and removed behind.
func (b *Backend) Stage(ctx context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(permille int)) error {
	if progress == nil {
		progress = func(int) {}
	}
	s, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.other(ctx, slot)
	if err != nil {
		return err
	}
	if there := b.whole(p); there == a.Target.SHA256 || b.planted == faultStatus && p.status == "ok" {
		progress(1000)
		return nil
	}
	path, drop, err := b.bundle(ctx, a)
	if err != nil {
		return err
	}
	defer drop()
	n := b.note()
	if n.Places, err = s.places(ctx); err != nil {
		return err
	}
	if b.planted != faultNote {
		n.Whole, n.SHA256, n.Mark = "", "", "" // before anything is written
	}
	if err := b.keep(n); err != nil {
		return err
	}
	if err := s.install(ctx, path, progress); err != nil {
		return err
	}
	return s.installed(ctx, slot, a.Target.SHA256)
}

// installed looks at what an installation left, and notes it.
func (s *session) installed(ctx context.Context, slot upgrade.Slot, digest string) error {
	places, err := s.places(ctx)
	if err != nil {
		return err
	}
	first, err := s.primary(ctx)
	if err != nil {
		return err
	}
	if first == slot { // activate-installed is on, whatever was read of system.conf
		if _, err := s.mark(ctx, "active", "booted"); err != nil {
			return fmt.Errorf("%w: RAUC has activated what it installed (activate-installed=false is missing), and that could not be undone: %w", ErrSystem, err)
		}
		return fmt.Errorf("%w: RAUC has activated what it installed, which was undone: set activate-installed=false in [system]", ErrSystem)
	}
	n := note{Format: noteFormat, Places: places, Whole: slot, SHA256: digest}
	for _, p := range places {
		if p.Slot == slot {
			n.Mark = p.mark
		}
	}
	if err := s.b.at("note"); err != nil {
		return err
	}
	return s.b.keep(n)
}

// other is a slot that may be written to.
func (s *session) other(ctx context.Context, slot upgrade.Slot) (place, error) {
	places, err := s.places(ctx)
	if err != nil {
		return place{}, err
	}
	booted, err := s.booted(ctx, places)
	if err != nil {
		return place{}, err
	}
	for _, p := range places {
		switch {
		case p.Slot != slot:
		case p.booted || p.Slot == booted:
			return place{}, fmt.Errorf("%w: %s runs", ErrSlot, slot)
		default:
			return p, nil
		}
	}
	return place{}, fmt.Errorf("%w: RAUC has no slot %q", ErrSlot, slot)
}

// whole is the digest of the bundle that a slot holds whole; "": none that is known of.
func (b *Backend) whole(p place) string {
	n := b.note()
	if n.Whole != p.Slot || n.Mark != p.mark {
		return ""
	}
	return n.SHA256
}

// spoolFile is an artifact that has no path.
const spoolFile = "slot.raucb"

// bundle verifies the artifact and gives the file that RAUC reads. RAUC makes it root's while it reads, so that nobody changes it behind its back, and verifies its signature.
func (b *Backend) bundle(ctx context.Context, a upgrade.Artifact) (path string, drop func(), err error) {
	from, drop := io.ReaderAt(a.ReaderAt), func() {}
	if from == nil {
		f, err := b.FS.Open(a.Path)
		if err != nil {
			return "", nil, fmt.Errorf("open the bundle: %w", err)
		}
		defer f.Close()
		from = f
	}
	path = a.Path
	var to disk.File
	if path == "" {
		path = filepath.Join(b.State, "upgrade", spoolFile)
		drop = func() { b.FS.Remove(path) } // it is in the slot, or is copied again
		if err := b.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("copy the bundle: %w", err)
		}
		if err := b.FS.MkdirAll(filepath.Dir(path)); err != nil {
			return "", nil, fmt.Errorf("copy the bundle: %w", err)
		}
		if to, err = b.FS.Create(path); err != nil {
			return "", nil, fmt.Errorf("copy the bundle: %w", err)
		}
	}
	err = verify(ctx, from, to, a.Target)
	if to != nil {
		err = errors.Join(err, to.Close())
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		drop()
		return "", nil, err
	}
	return path, drop, nil
}

// verify reads the artifact and writes it to another file, if there is one.
func verify(ctx context.Context, from io.ReaderAt, to disk.File, t upgrade.Target) error {
	sum, buf := sha256.New(), make([]byte, 256<<10)
	for at := int64(0); at < t.Bytes; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(buf[:min(int64(len(buf)), t.Bytes-at)], at)
		if n == 0 {
			return fmt.Errorf("%w: it ends at %d of %d bytes: %w", ErrArtifact, at, t.Bytes, err)
		}
		sum.Write(buf[:n])
		if to != nil {
			if _, err := to.WriteAt(buf[:n], at); err != nil {
				return fmt.Errorf("copy the bundle: %w", err)
			}
		}
		at += int64(n)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != t.SHA256 {
		return fmt.Errorf("%w: sha256 %.12s, not %.12s", ErrArtifact, got, t.SHA256)
	}
	return nil
}

// install is one installation. It is asked of the process that has RAUC's name now, and ends when that one does.
func (s *session) install(ctx context.Context, path string, progress func(int)) error {
	owner, err := s.watch(ctx)
	if err != nil {
		return err
	}
	if _, err := s.call(ctx, owner, "InstallBundle", path, map[string]bus.Variant{}); err != nil {
		var said *bus.Error
		if errors.As(err, &said) && !errors.Is(err, ErrNoRauc) {
			return fmt.Errorf("%w: %s", ErrRefused, said.Text)
		}
		return err
	}
	if err := s.b.at("installing"); err != nil {
		return err
	}
	idle := 0
	for {
		came, err := s.next(ctx)
		switch {
		case err == nil:
			idle = 0
			if done, err := s.hear(ctx, owner, came, progress); done || err != nil {
				return err
			}
		case ctx.Err() != nil:
			return fmt.Errorf("install: %w", ctx.Err())
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("%w: %w", ErrDied, err)
		default: // nothing was heard for a while
			if idle, err = s.ask(ctx, owner, idle); err != nil {
				return err
			}
		}
	}
}

// watch asks for what tells the end of an installation, then who it is that will install.
func (s *session) watch(ctx context.Context) (owner string, err error) {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	for _, rule := range []string{
		"type='signal',interface='" + installer + "',member='Completed'",
		"type='signal',sender='" + service + "',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'",
		"type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" + service + "'",
	} {
		if err := s.Match(ctx, rule); err != nil {
			return "", reached(err)
		}
	}
	owner, err = s.Owner(ctx, service)
	return owner, reached(err)
}

func (s *session) next(ctx context.Context) (bus.Signal, error) {
	ctx, stop := context.WithTimeout(ctx, s.b.asks())
	defer stop()
	return s.Next(ctx)
}

// hear takes one signal: done when it tells the end.
func (s *session) hear(ctx context.Context, owner string, came bus.Signal, progress func(int)) (done bool, err error) {
	switch {
	case came.Member == "NameOwnerChanged" && came.Sender == "org.freedesktop.DBus" && len(came.Body) == 3 && came.Body[1] == owner && s.b.planted != faultOwner:
		return false, ErrDied
	case came.Sender != owner:
	case came.Member == "Completed" && came.Interface == installer && len(came.Body) == 1:
		if came.Body[0] == int32(0) {
			progress(1000)
			return true, nil
		}
		return false, fmt.Errorf("%w: %s", ErrRefused, s.lastError(ctx, owner))
	case came.Member == "PropertiesChanged" && len(came.Body) == 3:
		changed, _ := came.Body[1].(map[string]any)
		if p, ok := changed["Progress"].([]any); ok && len(p) == 3 {
			if percent, ok := p[0].(int32); ok && percent >= 0 && percent < 100 {
				progress(int(percent) * 10)
			}
		}
	}
	return false, nil
}

// ask finds out whether an installation that is not heard of still runs: its end may have been missed only if RAUC never told it.
func (s *session) ask(ctx context.Context, owner string, idle int) (int, error) {
	if s.b.planted == faultOwner {
		return 0, nil
	}
	v, err := s.property(ctx, owner, "Operation")
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrDied, err)
	case v != "idle":
		return 0, nil
	case idle < 2: // Completed may be on its way
		return idle + 1, nil
	}
	return 0, fmt.Errorf("%w: RAUC does nothing, and did not tell how it ended: %s", ErrRefused, s.lastError(ctx, owner))
}

// lastError is RAUC's text.
func (s *session) lastError(ctx context.Context, owner string) string {
	v, err := s.property(ctx, owner, "LastError")
	if text, ok := v.(string); ok && text != "" {
		return text
	}
	return fmt.Sprint("it does not tell why; ", err)
}
