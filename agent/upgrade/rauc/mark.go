package rauc

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/agent/upgrade"
)

// mark is RAUC's Mark: good, bad, or active (the first to start). which is a slot's name, or "booted".
func (s *session) mark(ctx context.Context, as, which string) (string, error) {
	body, err := s.call(ctx, service, "Mark", as, which)
	if err != nil {
		return "", fmt.Errorf("mark %s %s: %w", which, as, err)
	}
	if len(body) < 1 {
		return "", fmt.Errorf("mark %s %s: no answer", which, as)
	}
	name, _ := body[0].(string)
	return name, nil
}

// Activate has the boot loader start the slot next, with the tries that it is configured for: RAUC has no word for another number. A slot that this backend did not install whole is refused, and so is one that another installation has
// written since. When the boot loader does not take it the slot that runs stays the one to start.
func (b *Backend) Activate(ctx context.Context, slot upgrade.Slot, _ int) error {
	return b.with(ctx, func(s *session, places []place, booted upgrade.Slot) error {
		p, err := find(places, slot)
		if err != nil {
			return err
		}
		if slot != booted && b.whole(p) == "" {
			return fmt.Errorf("%w: nothing that was installed whole is in %s", ErrSlot, slot)
		}
		if _, err := s.mark(ctx, "active", string(slot)); err != nil {
			return err
		}
		wrong := s.armed(ctx, slot)
		if wrong == nil || b.planted == faultArmed {
			return nil
		}
		_, err = s.mark(ctx, "active", string(booted))
		return errors.Join(wrong, err)
	})
}

// armed asks the boot loader whether it would start a slot. What RAUC says of it does not count.
func (s *session) armed(ctx context.Context, slot upgrade.Slot) error {
	first, err := s.primary(ctx)
	if err != nil {
		return err
	}
	if first != slot {
		return fmt.Errorf("%w: it was told to start %s, and starts %s", ErrNotArmed, slot, first)
	}
	places, err := s.places(ctx)
	if err != nil {
		return err
	}
	p, err := find(places, slot)
	if err == nil && !p.good {
		err = fmt.Errorf("%w: %s is the first, and bad: set-primary has to give it tries as well", ErrNotArmed, slot)
	}
	return err
}

// Commit makes the slot that runs good, and the first.
func (b *Backend) Commit(ctx context.Context) error {
	return b.with(ctx, func(s *session, _ []place, booted upgrade.Slot) error {
		first, err := s.primary(ctx)
		if err != nil {
			return err
		}
		if first != booted {
			if _, err := s.mark(ctx, "active", string(booted)); err != nil {
				return err
			}
		}
		return s.good(ctx, booted)
	})
}

// Keep tells the boot loader that this start was a good one. Loaders that count every start fall back without it. It is called once in a start while no upgrade is under way: nothing else may mark a slot good.
func (b *Backend) Keep(ctx context.Context) error { return b.Commit(ctx) }

func (s *session) good(ctx context.Context, slot upgrade.Slot) error {
	marked, err := s.mark(ctx, "good", string(slot))
	if err != nil {
		return err
	}
	if marked != string(slot) {
		return fmt.Errorf("%w: it was told that %s is good, and has marked %s", ErrNotArmed, slot, marked)
	}
	return s.armed(ctx, slot)
}

// Revert has slot, which ran before, start next and for good, and the other one no more. A slot that never ran and was not installed whole is refused.
func (b *Backend) Revert(ctx context.Context, slot upgrade.Slot) error {
	return b.with(ctx, func(s *session, places []place, booted upgrade.Slot) error {
		p, err := find(places, slot)
		if err != nil {
			return err
		}
		if n := b.note(); slot != booted && !p.good && n.Whole != slot {
			return fmt.Errorf("%w: %s is bad to the boot loader, and nothing is known to be whole in it", ErrSlot, slot)
		}
		if _, err := s.mark(ctx, "active", string(slot)); err != nil {
			return err
		}
		if err := s.good(ctx, slot); err != nil {
			return err
		}
		for _, other := range places {
			if other.Slot != slot {
				if _, err := s.mark(ctx, "bad", string(other.Slot)); err != nil {
					return err
				}
			}
		}
		return s.armed(ctx, slot)
	})
}

// Abort has what was staged start no more. An installation that is under way ends first.
func (b *Backend) Abort(ctx context.Context, slot upgrade.Slot) error {
	s, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.other(ctx, slot); err != nil {
		return err
	}
	if n := b.note(); n.Whole == slot {
		n.Whole, n.SHA256, n.Mark = "", "", ""
		if err := b.keep(n); err != nil {
			return err
		}
	}
	first, err := s.primary(ctx)
	if err == nil && first == slot {
		_, err = s.mark(ctx, "active", "booted")
	}
	if err != nil {
		return err
	}
	_, err = s.mark(ctx, "bad", string(slot))
	return err
}

// with connects, waits until RAUC does nothing, and looks at the slots.
func (b *Backend) with(ctx context.Context, f func(*session, []place, upgrade.Slot) error) error {
	s, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	places, err := s.places(ctx)
	if err != nil {
		return err
	}
	booted, err := s.booted(ctx, places)
	if err != nil {
		return err
	}
	return f(s, places, booted)
}

func find(places []place, slot upgrade.Slot) (place, error) {
	for _, p := range places {
		if p.Slot == slot {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("%w: RAUC has no slot %q", ErrSlot, slot)
}
