// Package led shows the agent's state on LEDs of the kernel's LED class (Documentation/leds/leds-class.rst): directories in /sys/class/leds with a trigger and a brightness. To light one writes no flash.
package led

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// State is what is shown.
type State uint8

// The states.
const (
	Running  State = iota
	Degraded       // something needs an operator
	Fenced         // another device has this one's place
	Stopped
)

// Light is what one LED shows: a trigger of the kernel, and whether it is lit where the trigger is none.
type Light struct {
	Trigger string
	Lit     bool
}

const (
	steady    = "none"
	blink     = "timer"     // half a second on, half a second off
	heartbeat = "heartbeat" // twice, and a pause
)

// Status is pure: what the status LED shows, of the triggers that its kernel has.
func Status(s State, has []string) Light {
	wanted := map[State][]string{Degraded: {blink}, Fenced: {heartbeat, blink}}[s]
	for _, trigger := range wanted {
		if slices.Contains(has, trigger) {
			return Light{Trigger: trigger}
		}
	}
	return Light{Trigger: steady, Lit: s == Running} // a kernel that cannot blink: dark is not well
}

// Alarm is pure: what the alarm LED shows.
func Alarm(s State) Light { return Light{Trigger: steady, Lit: s == Degraded || s == Fenced} }

// Every is how often the state is asked for.
const Every = 5 * time.Second

// Lamps are the LEDs of an agent. One goroutine has them, Run's.
type Lamps struct {
	Dir           string // "": /sys/class/leds
	Status, Alarm string // names in it; "": none
	Log           *slog.Logger

	told  bool
	shown State
	lit   bool // shown is shown
}

// Run shows what state says until ctx ends, and leaves the LEDs dark. It never fails: what cannot be lit is told once, and tried again when the state changes.
func (l *Lamps) Run(ctx context.Context, state func() State) error {
	if l.Status == "" && l.Alarm == "" {
		return nil
	}
	t := time.NewTicker(Every)
	defer t.Stop()
	for {
		l.show(state())
		select {
		case <-ctx.Done():
			l.show(Stopped)
			return nil
		case <-t.C:
		}
	}
}

// show writes only when the state has changed.
func (l *Lamps) show(s State) {
	if l.lit && l.shown == s {
		return
	}
	l.shown, l.lit = s, true
	var err error
	if l.Status != "" {
		has, failed := l.triggers(l.Status)
		err = errors.Join(failed, l.set(l.Status, Status(s, has)))
	}
	if l.Alarm != "" {
		err = errors.Join(err, l.set(l.Alarm, Alarm(s)))
	}
	if err != nil && !l.told {
		l.told = true
		l.Log.Warn("a LED cannot be lit", "error", err)
	}
}

func (l *Lamps) dir(name string) string {
	if l.Dir != "" {
		return filepath.Join(l.Dir, name)
	}
	return filepath.Join("/sys/class/leds", name)
}

// triggers are those that a LED may have; the one in brackets it has.
func (l *Lamps) triggers(name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(l.dir(name), "trigger"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(b))), nil
}

func (l *Lamps) set(name string, to Light) error {
	if err := put(filepath.Join(l.dir(name), "trigger"), to.Trigger); err != nil || to.Trigger != steady {
		return err
	}
	value := "0"
	if to.Lit {
		value = l.brightest(name)
	}
	return put(filepath.Join(l.dir(name), "brightness"), value)
}

// brightest is the LED's highest value; 1, which lights any, where it does not tell.
func (l *Lamps) brightest(name string) string {
	b, err := os.ReadFile(filepath.Join(l.dir(name), "max_brightness"))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "1"
}

// put writes a file that is there: sysfs makes none.
func put(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		err = fmt.Errorf("write %s: %w", file, err)
	}
	return errors.Join(err, f.Close())
}
