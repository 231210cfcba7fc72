package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/boards"
	"github.com/weirstream/weir/pipeline/suggest"
)

// Words of board besides the profiles' names.
const (
	BoardAuto = "auto"
	BoardNone = "none"
)

var boardSetting = set("board", at(func(c *Config) *string { return &c.Board }).is(boardKind{}),
	"Profile of the hardware, of which some defaults are (docs/boards.md). auto: what the device tree or the firmware says that it is. none: the defaults written here. `weir check` shows what came of it.", byDefault(BoardAuto))

// boardKind is auto, none, or the name of a profile.
type boardKind struct{}

func boardWords() []string { return append([]string{BoardAuto, BoardNone}, boards.IDs()...) }

func (boardKind) label() string          { return "auto, none, or a board that weir boards ls lists" }
func (boardKind) schema() map[string]any { return map[string]any{"enum": boardWords()} }

func (boardKind) reads(*string) {}
func (k boardKind) read(r *reader, n *node, place any) {
	into := place.(*string)
	if n.shape != shapeScalar {
		r.wrong(n, k.label())
		return
	}
	words := boardWords()
	if !slices.Contains(words, n.text) {
		r.problems.Add(n.pos, suggest.Nearest(n.text, words), "allowed are "+strings.Join(words, ", ")+"; a name for hardware without a serial number stands in board_serial", "found %s", n.describe())
		return
	}
	*into = n.text
	if r.given != nil {
		r.given[into] = n.pos // for what is said of it once the machine is known
	}
}

// LED are those that show the agent's state: directories in /sys/class/leds. "": none.
type LED struct{ Status, Alarm string }

// ledNone is the word for no LED, where a board has one.
const ledNone = "none"

// ledKind is a directory in /sys/class/leds.
var ledKind = stringKind{textKind{what: "a LED's name in /sys/class/leds, or none", pattern: `^[^/ '"$` + "`" + `\\]+$`, allowed: "a LED's name in /sys/class/leds, or none", check: checkSysName}}

var ledSetting = set("led", at(func(c *Config) *LED { return &c.LED }).is(&object[LED]{section: section{what: "led", list: []*setting{
	set("status", at(func(l *LED) *string { return &l.Status }).is(ledKind), "Lit while the agent works, blinking while something is wrong, flashing twice while another device has its place, dark when it has stopped. Left out: the board's.", byBoard()),
	set("alarm", at(func(l *LED) *string { return &l.Alarm }).is(ledKind), "Lit while something is wrong. Left out: the board's.", byBoard()),
}}}), "LEDs that show the agent's state. Lighting them costs no flash; one that cannot be lit is told once.")

// Board is what Settle found.
type Board struct {
	boards.Choice
	// Profile is nil for none, and where nothing is known of the processor.
	Profile *boards.Profile
	// Values are the settings that a board may set, with what holds and where it is from.
	Values []Value
	// Foreign is a warning: the config names a board that this machine cannot be. "": nothing speaks against it.
	Foreign string
}

// Value is a setting that holds. From is a place in the file, "board ID", or "built in".
type Value struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// builtIn is where a default is from that no board has set.
const builtIn = "built in"

// Settle gives settings that the file leaves out the defaults of the board that the config names, or of the one that the machine is found to be. What the file has stays. It is pure, and to repeat it is
// harmless; before it the defaults are those that are built in, whatever the machine: `weir replay` and `weir test` stay there.
func (c *Config) Settle(f boards.Facts) error {
	b := Board{}
	switch c.Board {
	case BoardNone:
		b.Choice = boards.Choice{ID: BoardNone, Why: "the config says so"}
	case BoardAuto:
		b.Choice = boards.Pick(boards.Index(), f)
	default:
		b.Choice = boards.Choice{ID: c.Board, Why: "the config says so"}
	}
	if b.ID != "" && b.ID != BoardNone {
		p, err := Profile(b.ID)
		if err != nil {
			return fmt.Errorf("board: %w", err)
		}
		b.Profile = p
	}
	b.Foreign = c.foreign(&b, f)
	c.overlay(&b)
	c.On = b
	return nil
}

// foreign says that the board which the file names has another kind of processor than the machine. Within a kind there are good reasons: a processor of 64 bits also runs a kernel, or a
// process, of 32.
func (c *Config) foreign(b *Board, f boards.Facts) string {
	if b.Profile == nil || c.Board == BoardAuto || f.Machine == "" || processors(b.Profile.Arch) == processors(boards.Arch(f.Machine)) {
		return ""
	}
	is := boards.Pick(boards.Index(), f).ID
	at := c.given[&c.Board]
	return fmt.Sprintf("%s: board %s has a processor of kind %s, this machine says %s: the defaults that come from the board are of other hardware, flash.tbw and what the flash governor makes of it too; %s (see weir check)",
		at, b.ID, b.Profile.Arch, f.Machine, instead(is))
}

// instead says what the file had better name on a machine.
func instead(is string) string {
	if is == "" {
		return "board: none takes the built-in ones"
	}
	return fmt.Sprintf("board: auto takes %s here, board: none the built-in ones", is)
}

// processors is the kind of an architecture: what runs on one of them may run on the others.
func processors(arch string) string {
	if arch == "arm64" {
		return "arm"
	}
	return arch
}

// overlay sets what the file leaves out.
func (c *Config) overlay(b *Board) {
	p := b.Profile
	if p == nil {
		p = &boards.Profile{}
	}
	o := overlay{c: c, b: b}
	settleTo(o, "journal.linger", &c.Journal.Linger, time.Duration(p.Journal.LingerMs)*time.Millisecond, FormatDuration)
	for _, pl := range c.Pipelines {
		in := "pipelines." + pl.Name.Value + ".checkpoint."
		settleTo(o, in+"interval", &pl.Checkpoint.Interval, time.Duration(p.Checkpoint.IntervalS)*time.Second, FormatDuration)
		settleTo(o, in+"retained", &pl.Checkpoint.Retained, p.Checkpoint.LocalKeep, strconv.Itoa)
		pl.CommitIntervalMs = pl.Checkpoint.Interval.Milliseconds()
		pl.regions = nil // they are copies
	}
	c.overlayFlash(o, p)
	led := func(s string) string {
		if s == "" || s == ledNone {
			return ledNone
		}
		return s
	}
	settleTo(o, "led.status", &c.LED.Status, p.LEDs.Status, led)
	settleTo(o, "led.alarm", &c.LED.Alarm, p.LEDs.Alarm, led)
}

// overlayFlash sets what the storage is to bear.
func (c *Config) overlayFlash(o overlay, p *boards.Profile) {
	known := func(word string) func(int64) string {
		return func(n int64) string {
			if n == 0 {
				return word
			}
			return FormatSize(n)
		}
	}
	settleTo(o, "flash.device", &c.Flash.Device, p.Flash.Device, plainText)
	settleTo(o, "flash.tbw", &c.Flash.TBW, p.Flash.TBW, known("unknown"))
	settleTo(o, "flash.daily_budget", &c.Flash.DailyBudget, p.Flash.DailyBudget, known("auto"))
	settleTo(o, "flash.max_linger", &c.Flash.LingerMax, time.Duration(p.Flash.MaxLingerMs)*time.Millisecond, FormatDuration)
	settleTo(o, "flash.max_checkpoint_interval", &c.Flash.IntervalMax, time.Duration(p.Flash.MaxCheckpointIntervalS)*time.Second, FormatDuration)
	settleTo(o, "flash.governor", &c.Flash.Governor, p.Flash.Governor, plainText)
}

func plainText(s string) string { return s }

type overlay struct {
	c *Config
	b *Board
}

// settleTo is the rule of precedence: the file, then the board, then what is built in.
func settleTo[V comparable](o overlay, name string, into *V, board V, text func(V) string) {
	var zero V
	from := builtIn
	if at, given := o.c.given[into]; given && !(o.c.boardFirst && board != zero) {
		from = fmt.Sprintf("%s:%d", at.File, at.Line)
	} else if board != zero {
		*into, from = board, "board "+o.b.ID
	}
	o.b.Values = append(o.b.Values, Value{name, text(*into), from})
}

// Names gives the LEDs that are to be lit; "" for none.
func (l LED) Names() (status, alarm string) {
	name := func(s string) string {
		if s == ledNone {
			return ""
		}
		return s
	}
	return name(l.Status), name(l.Alarm)
}

// MemoryLimit is GOMEMLIMIT on a machine, in bytes, with where it is from; 0: nobody sets it. set is what the environment has of it.
func (c *Config) MemoryLimit(f boards.Facts, set string) (int64, Value) {
	if set != "" {
		return 0, Value{"GOMEMLIMIT", set, "the environment"}
	}
	limit, why := boards.MemoryLimit(c.On.Profile, f)
	text := "none"
	if limit > 0 {
		text = strconv.FormatInt(limit>>20, 10) + "MiB"
	}
	return limit, Value{"GOMEMLIMIT", text, why}
}
