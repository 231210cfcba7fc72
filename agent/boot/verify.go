package boot

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/agent/upgrade"
)

// verifying tells which slots can be run, and remembers why others cannot.
type verifying struct {
	places  *Places
	record  *upgrade.Record // nil: unreadable
	anew    bool
	refused []Refused
	known   map[upgrade.Slot]bool
}

// usable verifies a slot, once. The one that the record wants is filled with what the agent has fetched, if it holds something else.
func (v *verifying) usable(ctx context.Context, s upgrade.Slot) bool {
	if ok, asked := v.known[s]; asked {
		return ok
	}
	err := v.verify(ctx, s)
	if err != nil {
		v.places.say(failure, "slot %.20q is refused: %v", s, err)
		v.refused = append(v.refused, Refused{s, err.Error()})
	}
	if v.known == nil {
		v.known = map[upgrade.Slot]bool{}
	}
	v.known[s] = err == nil
	return err == nil
}

func (v *verifying) verify(ctx context.Context, s upgrade.Slot) error {
	p, r := v.places, v.record
	if !known(s) || s == upgrade.Factory {
		return errUnknown
	}
	floor, err := p.floor()
	if err != nil { // it must not sink
		return fmt.Errorf("the floor of secure versions cannot be read: %w", err)
	}
	digest, install := "", false
	switch {
	case r != nil && s == r.Standby && onStandby(r.State):
		digest, install = r.Target.SHA256, true
	case r != nil && s == r.Active:
		digest = r.From.SHA256
	}
	_, err = p.check(ctx, s, digest, floor, v.anew)
	if err == nil || !install {
		return err
	}
	p.say(notice, "slot %s: %v; what was fetched is copied and verified", s, err)
	return p.install(ctx, s, digest, floor, p.packageFor(ctx, r))
}
