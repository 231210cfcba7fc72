package document

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What a command may do.
const (
	DoSavepoint       = "savepoint"
	DoStop            = "stop"
	DoStart           = "start"
	DoRestartPipeline = "restart-pipeline"
	DoApply           = "apply"
	DoRestart         = "restart"
	DoUpgrade         = "upgrade"
	DoDiagnostics     = "diagnostics"
	DoRotateKey       = "rotate-key"
)

// members are what a command has beside what all have: those it needs, and those it may have.
var members = map[string]struct{ needs, may []string }{
	DoSavepoint:       {may: []string{"pipeline", "stop", "upload"}},
	DoStop:            {may: []string{"pipeline"}},
	DoStart:           {may: []string{"pipeline"}},
	DoRestartPipeline: {may: []string{"pipeline"}},
	DoApply:           {needs: []string{"config"}, may: []string{"allow_dropped_state", "dry_run"}},
	DoRestart:         {},
	DoUpgrade:         {needs: []string{"release", "policy"}},
	DoDiagnostics:     {may: []string{"upload"}},
	DoRotateKey:       {may: []string{"public_key"}},
}

// The beginnings of the scopes of commands.
const (
	ScopeChannel = "commands/"
	ScopeDevice  = "device/"
)

func (c *Commands) check() error {
	if err := first(named("fleet", c.Fleet), serial("serial", c.Serial), times(c.CreatedMs, 0), scope(c.Scope)); err != nil {
		return err
	}
	last, ids := uint64(0), map[string]bool{}
	for i := range c.List {
		one := &c.List[i]
		err := one.check()
		switch {
		case err != nil:
		case one.Serial <= last:
			err = fmt.Errorf("serial: %d behind %d, want them to rise", one.Serial, last)
		case ids[one.ID]:
			err = fmt.Errorf("id: %q is there twice", one.ID)
		}
		if err != nil {
			return fmt.Errorf("list[%d]: %w", i, err)
		}
		last, ids[one.ID] = one.Serial, true
	}
	if last > c.Serial {
		return fmt.Errorf("serial: %d, that of the newest command is %d", c.Serial, last)
	}
	return nil
}

func scope(s string) error {
	for _, kind := range []string{ScopeChannel, ScopeDevice} {
		if name, is := strings.CutPrefix(s, kind); is {
			return named("scope", name)
		}
	}
	return fmt.Errorf("scope: %q, want commands/CHANNEL or device/GATEWAY", s)
}

func (c *Command) check() error {
	if err := first(serial("serial", c.Serial), named("id", c.ID), times(c.CreatedMs, c.ExpiresMs), c.Audience.check()); err != nil {
		return err
	}
	allowed, known := members[c.Do]
	if !known {
		return oneOf("do", c.Do, sorted(members))
	}
	has := c.members()
	for _, m := range allowed.needs {
		if !slices.Contains(has, m) {
			return fmt.Errorf("%s: %s needs it", m, c.Do)
		}
	}
	for _, m := range has {
		if !slices.Contains(allowed.needs, m) && !slices.Contains(allowed.may, m) {
			return fmt.Errorf("%s: %s has no such member", m, c.Do)
		}
	}
	return c.checkMembers()
}

// members are those that are set, of those that not every command has.
func (c *Command) members() (names []string) {
	for _, m := range []struct {
		name string
		is   bool
	}{
		{"pipeline", c.Pipeline != ""}, {"config", c.Config != ""}, {"allow_dropped_state", c.Allow}, {"dry_run", c.DryRun}, {"release", c.Release != ""},
		{"policy", c.Policy != nil}, {"stop", c.WithStop}, {"upload", c.Upload}, {"public_key", c.PublicKey != ""},
	} {
		if m.is {
			names = append(names, m.name)
		}
	}
	return names
}

func (c *Command) checkMembers() error {
	if c.Pipeline != "" {
		if err := named("pipeline", c.Pipeline); err != nil {
			return err
		}
	}
	if c.Release != "" {
		if err := digest("release", c.Release); err != nil {
			return err
		}
	}
	if c.PublicKey != "" && !strings.HasPrefix(c.PublicKey, "ed25519:") {
		return errors.New("public_key: want ed25519:BASE64")
	}
	if c.Policy != nil {
		return c.Policy.check()
	}
	return nil
}
