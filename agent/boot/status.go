package boot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent/upgrade"
)

// Status is what `weir-boot status` shows.
type Status struct {
	Linked  upgrade.Slot      `json:"linked"` // "": nothing of the helper's
	Booted  *Booted           `json:"booted,omitempty"`
	Refused []Refused         `json:"refused,omitempty"`
	Record  *upgrade.Record   `json:"record,omitempty"`
	Slots   map[string]About  `json:"slots,omitempty"`
	Empty   map[string]string `json:"unusable,omitempty"` // slot: why
	Floor   uint64            `json:"secure_floor"`
	Held    string            `json:"held,omitempty"`
	Fleet   string            `json:"fleet,omitempty"`
	Root    uint64            `json:"root,omitempty"`
	Follows int               `json:"starts_in_a_row,omitempty"`
	Unread  []string          `json:"unread,omitempty"` // what could not be read, and why
}

// Status looks at everything and changes nothing. It does not hash programs: that is a start's.
func (p *Places) Status() (s Status) {
	s.Linked = p.linked()
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Unread = append(s.Unread, err.Error())
		}
	}
	if b, err := p.Booted(); err == nil {
		s.Booted = &b
	} else {
		note(err)
	}
	_, err := p.readJSON(filepath.Join(p.Run, refusedFile), &s.Refused)
	note(err)
	s.Record, err = p.recordOf()
	note(err)
	s.Slots, s.Empty = map[string]About{}, map[string]string{}
	for _, slot := range []upgrade.Slot{upgrade.SlotA, upgrade.SlotB} {
		if a, err := p.about(slot); err == nil {
			s.Slots[string(slot)] = a
		} else if !errors.Is(err, errEmpty) {
			s.Empty[string(slot)] = err.Error()
		}
	}
	s.Floor, err = p.floor()
	note(err)
	var h held
	there, err := p.readJSON(filepath.Join(p.Dir, heldFile), &h)
	note(err)
	if there && err == nil && s.Record != nil && h.holds(s.Record) {
		s.Held = h.Why
	}
	if t, _, err := p.ownTrust(); err == nil {
		s.Fleet, s.Root = t.Fleet(), t.Version()
	} else if !errors.Is(err, errNoRoot) || strings.Contains(err.Error(), "\n") {
		note(err)
	}
	var paced starts
	_, err = p.readJSON(filepath.Join(p.Run, pacedFile), &paced)
	note(err)
	s.Follows = paced.Count
	return s
}

// Print writes it for people.
func (s *Status) Print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	linked := string(s.Linked)
	if linked == "" {
		linked = "nothing: `weir-boot link` makes the link"
	}
	line("linked", "%s", linked)
	if b := s.Booted; b != nil {
		line("last start", "%s%s", b.Slot, behind(" ", b.Version))
		if b.Rescue != "" {
			line("rescue", "%s; the factory program runs no pipeline", b.Rescue)
		}
	}
	if r := s.Record; r != nil && r.State != upgrade.Idle {
		line("upgrade", "%d: %s, to %s (%.12s) in slot %s, from %s (%s)%s", r.Number, r.State, r.Target.Version, r.Target.SHA256, r.Standby, orUnknown(r.From.Version), r.Active, behind("; ", r.Why))
		if onTrial(r.State) {
			line("", "%d starts left", r.Tries)
		}
	} else if r != nil {
		line("upgrade", "none was ever asked for")
	}
	if s.Held != "" {
		line("held", "the factory program runs: %s", s.Held)
	}
	for _, slot := range []string{"a", "b"} {
		if a, ok := s.Slots[slot]; ok {
			line("slot "+slot, "%s, sha256 %.12s, %d bytes, secure version %d", a.Version, a.SHA256, a.Bytes, a.SecureVersion)
		} else if why := s.Empty[slot]; why != "" {
			line("slot "+slot, "unusable: %s", why)
		} else {
			line("slot "+slot, "empty")
		}
	}
	for _, r := range s.Refused {
		line("refused", "slot %s: %s", r.Slot, r.Why)
	}
	line("floor", "secure version %d", s.Floor)
	if s.Root == 0 {
		line("root", "none: no release can be verified")
	} else {
		line("root", "%d of fleet %s", s.Root, s.Fleet)
	}
	if s.Follows > 0 {
		line("starts", "%d have followed one another", s.Follows)
	}
	for _, u := range s.Unread {
		line("unread", "%s", strings.ReplaceAll(u, "\n", "; "))
	}
}

func behind(sign, text string) string {
	if text == "" {
		return ""
	}
	return sign + text
}

func orUnknown(version string) string {
	if version == "" {
		return "an unknown version"
	}
	return version
}
