package rauc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/bus"
	"github.com/weirstream/weir/agent/upgrade"
)

// place is a slot of a whole system.
type place struct {
	Slot     upgrade.Slot `json:"slot"`     // RAUC's name: rootfs.0
	Bootname string       `json:"bootname"` // the boot loader's: A
	Device   string       `json:"device"`

	booted bool
	good   bool   // the boot loader would start it
	status string // RAUC's: never believed
	mark   string
}

// look gives the two slots and the one that runs. While RAUC installs it tells nothing of slots: then they are the noted ones.
func (b *Backend) look(ctx context.Context) ([]place, upgrade.Slot, error) {
	s, err := b.dial(ctx)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	places := b.note().Places
	if busy, err := s.busy(ctx); err != nil {
		return nil, "", err
	} else if !busy || len(places) == 0 {
		if places, err = s.places(ctx); err != nil {
			return nil, "", err
		}
	}
	booted, err := s.booted(ctx, places)
	return places, booted, err
}

// booted finds what RAUC calls the boot slot: a boot loader's name, a device, or RAUC's name.
func (s *session) booted(ctx context.Context, places []place) (upgrade.Slot, error) {
	v, err := s.property(ctx, service, "BootSlot")
	if err != nil {
		return "", err
	}
	name, _ := v.(string)
	i := slices.IndexFunc(places, func(p place) bool {
		return name != "" && (name == p.Bootname || name == p.Device || name == string(p.Slot))
	})
	if i < 0 {
		return "", fmt.Errorf("%w: the machine runs from %q, which is none of its slots", ErrSystem, name)
	}
	return places[i].Slot, nil
}

// places asks for the slots that can be booted, waiting for an installation to end.
func (s *session) places(ctx context.Context) ([]place, error) {
	if err := s.idle(ctx); err != nil {
		return nil, err
	}
	body, err := s.call(ctx, service, "GetSlotStatus")
	if err != nil {
		return nil, fmt.Errorf("ask RAUC for its slots: %w", err)
	}
	if len(body) != 1 {
		return nil, fmt.Errorf("ask RAUC for its slots: %d values", len(body))
	}
	return placesOf(body[0])
}

// placesOf reads GetSlotStatus, a(sa{sv}). Two slots with a boot name, of one class: with another number RAUC would choose which one it writes.
func placesOf(list any) ([]place, error) {
	items, _ := list.([]any)
	var out []place
	class := ""
	for _, item := range items {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			return nil, errors.New("RAUC's answer names no slots")
		}
		name, _ := pair[0].(string)
		has, _ := pair[1].(map[string]any)
		text := func(key string) string { s, _ := has[key].(string); return s }
		if text("bootname") == "" {
			continue
		}
		if len(out) > 0 && class != text("class") {
			return nil, fmt.Errorf("%w: slots of the classes %s and %s can be booted; weir knows one class of two", ErrSystem, class, text("class"))
		}
		class = text("class")
		out = append(out, place{
			Slot: upgrade.Slot(name), Bootname: text("bootname"), Device: text("device"), booted: text("state") == "booted", good: text("boot-status") == "good", status: text("status"),
			mark: fmt.Sprint(has["installed.count"], " ", has["installed.timestamp"], " ", has["sha256"]),
		})
	}
	if len(out) != 2 {
		return nil, fmt.Errorf("%w: %d slots have a bootname, and weir needs two", ErrSystem, len(out))
	}
	slices.SortFunc(out, func(a, b place) int { return strings.Compare(string(a.Slot), string(b.Slot)) })
	return out, nil
}

// busy tells that RAUC installs something.
func (s *session) busy(ctx context.Context) (bool, error) {
	v, err := s.property(ctx, service, "Operation")
	return v != "idle", err
}

// idle waits for RAUC to do nothing. It has no way to be stopped: what a process that was killed had begun goes on.
func (s *session) idle(ctx context.Context) error {
	for {
		busy, err := s.busy(ctx)
		if err != nil || !busy {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		case <-time.After(s.b.asks() / 10):
		}
	}
}

func (b *Backend) asks() time.Duration {
	if b.every > 0 {
		return b.every
	}
	return askEvery
}

// primary is what the boot loader starts next.
func (s *session) primary(ctx context.Context) (upgrade.Slot, error) {
	body, err := s.call(ctx, service, "GetPrimary")
	if err != nil {
		var said *bus.Error
		if errors.As(err, &said) {
			return "", fmt.Errorf("%w: it names no slot that it starts next: %s", ErrNotArmed, said.Text)
		}
		return "", fmt.Errorf("ask for the slot that starts next: %w", err)
	}
	if len(body) == 1 {
		if name, ok := body[0].(string); ok {
			return upgrade.Slot(name), nil
		}
	}
	return "", fmt.Errorf("ask for the slot that starts next: %v", body)
}

// judgeConf looks for what would have an installed system start before weir has said so. RAUC does not tell it by D-Bus.
func (b *Backend) judgeConf() error {
	text, err := os.ReadFile(b.Conf)
	if err != nil {
		return nil // it belongs to root, and may be unreadable: Stage sees what was activated
	}
	section := ""
	for line := range bytes.Lines(text) {
		line := strings.TrimSpace(string(line))
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, _ := strings.Cut(line, "=")
		if section == "[system]" && strings.TrimSpace(key) == "activate-installed" {
			if strings.TrimSpace(value) == "false" {
				return nil
			}
			break
		}
	}
	return fmt.Errorf("%w: %s needs activate-installed=false in [system]: an installed system would start before its state was saved", ErrSystem, b.Conf)
}
