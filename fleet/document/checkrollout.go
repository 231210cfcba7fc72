package document

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/fleet/strict"
)

const (
	probationMsMost = 24 * 3600 * 1000
	waitMsMost      = 366 * 24 * 3600 * 1000
	reportsMost     = 1 << 30
)

// Savepoints are the values of Policy.Savepoint.
var Savepoints = []string{"required", "best-effort"}

func (r *Rollout) check() error {
	if err := first(named("fleet", r.Fleet), serial("serial", r.Serial), named("channel", r.Channel), named("id", r.ID), digest("release", r.Release), times(r.CreatedMs, r.ExpiresMs),
		between("permille", r.Permille, 0, 1000), r.Audience.check(), r.Policy.check(), r.Limits.check(), between("wave_ms", r.WaveMs, 0, int64(strict.MsMost))); err != nil {
		return err
	}
	for i, w := range r.Waves {
		least := 1
		if i > 0 {
			least = r.Waves[i-1].Permille + 1
		}
		if err := first(between("permille", w.Permille, least, 1000), between("soak_ms", w.SoakMs, 0, waitMsMost)); err != nil {
			return fmt.Errorf("waves[%d]: %w", i, err)
		}
	}
	if r.WhyHalt != "" && !r.Halted {
		return errors.New("why_halted: it is not halted")
	}
	return first(between("wave", r.Wave, 0, max(0, len(r.Waves)-1)), readable("why_halted", r.WhyHalt))
}

func (a *Audience) check() error {
	return first(set("audience.gateways", a.Gateways), set("audience.boards", a.Boards))
}

func (p *Policy) check() error {
	_, _, err := p.Hours()
	return first(oneOf("policy.savepoint", p.Savepoint, Savepoints), between("policy.probation_ms", p.ProbationMs, 0, probationMsMost), err)
}

func (l *Limits) check() error {
	return first(between("limits.max_failed_permille", l.MaxFailedPermille, 0, 1000), between("limits.min_reports", l.MinReports, 0, reportsMost),
		between("limits.silence_ms", l.SilenceMs, 0, waitMsMost))
}

// Hours are from when until when of the gateway's local day it may switch, since midnight. until is below from when the window goes over midnight. Both 0: any time.
func (p *Policy) Hours() (from, until time.Duration, err error) {
	if p.Window == "" {
		return 0, 0, nil
	}
	wrong := fmt.Errorf("policy.window: %q, want two different times of day, as 02:00-04:30", p.Window)
	if len(p.Window) != len("02:00-04:30") || p.Window[5] != '-' {
		return 0, 0, wrong
	}
	from, okFrom := timeOfDay(p.Window[:5])
	until, okUntil := timeOfDay(p.Window[6:])
	if !okFrom || !okUntil || from == until {
		return 0, 0, wrong
	}
	return from, until, nil
}

func timeOfDay(s string) (time.Duration, bool) {
	digit := func(i int) int {
		if s[i] < '0' || s[i] > '9' {
			return 100
		}
		return int(s[i] - '0')
	}
	hour, minute := 10*digit(0)+digit(1), 10*digit(3)+digit(4)
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, s[2] == ':' && hour < 24 && minute < 60
}

// Includes tells whether a gateway on that board is among those that the document is for. board is "" where none is known.
func (a *Audience) Includes(gateway, board string) bool {
	return (len(a.Gateways) == 0 || slices.Contains(a.Gateways, gateway)) && (len(a.Boards) == 0 || slices.Contains(a.Boards, board))
}

// Includes tells whether a gateway on that board is in, as the roll-out stands. Who is in stays in as Permille rises. Halted is not asked.
func (r *Rollout) Includes(gateway, board string) bool {
	return r.Audience.Includes(gateway, board) && (r.Permille >= 1000 || Cohort(r.ID, gateway) < r.Permille) // who judges 100,000 need not hash them all
}

// Cohort is where in a roll-out a gateway stands, 0 to 999: the first 8 bytes of sha256(id‖gateway), big-endian, modulo 1000.
func Cohort(id, gateway string) int {
	sum := sha256.Sum256([]byte(id + gateway))
	return int(binary.BigEndian.Uint64(sum[:8]) % 1000)
}
