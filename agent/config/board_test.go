package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/boards"
	"github.com/weirstream/weir/pipeline/plan"
)

// machineOf is one that is found to be a board; nil names: of a board that nobody knows.
func machineOf(k boards.Known) boards.Facts {
	f := boards.Facts{Machine: map[string]string{"arm64": "aarch64", "arm": "armv7l", "amd64": "x86_64"}[k.Arch], Compatible: []string{"acme,none"}}
	if len(k.Detect.Compatible) > 0 {
		f.Compatible = []string{k.Detect.Compatible[0], "acme,soc"}
	}
	return f
}

// drawn is a config with some of the settings that a board may set.
type drawn struct {
	text    string
	linger  int // ms; 0: left out
	every   int // s
	keep    int
	led     string
	flink   bool
	stretch bool // flash.max_linger is 2s
}

func drawConfig(t *rapid.T) (d drawn) {
	d.linger, d.every, d.keep = rapid.IntRange(0, 3).Draw(t, "linger"), rapid.IntRange(0, 3).Draw(t, "every"), rapid.IntRange(0, 3).Draw(t, "keep")
	d.led, d.flink = rapid.SampledFrom([]string{"", "none", "mine"}).Draw(t, "led"), rapid.Bool().Draw(t, "flink")
	board := rapid.SampledFrom(append([]string{""}, boardWords()...)).Draw(t, "board")
	d.text = small
	if board != "" {
		d.text = "board: " + board + "\n" + d.text
	}
	var checkpoint []string
	if d.every > 0 && d.flink {
		d.text += fmt.Sprintf("    execution.checkpointing.interval: %ds\n", d.every)
	} else if d.every > 0 {
		checkpoint = append(checkpoint, fmt.Sprintf("interval: %ds", d.every))
	}
	if d.keep > 0 {
		checkpoint = append(checkpoint, fmt.Sprintf("retained: %d", d.keep))
	}
	if len(checkpoint) > 0 {
		d.text += "    checkpoint: {" + strings.Join(checkpoint, ", ") + "}\n"
	}
	if d.linger > 0 {
		d.text += fmt.Sprintf("journal: {linger: %dms}\n", d.linger)
	}
	if d.stretch = rapid.Bool().Draw(t, "stretch"); d.stretch {
		d.text += "flash: {max_linger: 2s}\n"
	}
	if d.led != "" {
		d.text += "led: {status: " + d.led + "}\n"
	}
	return d
}

// precedence tells what is wrong with a settled config: the file counts before the board, the board before what is built in, and each says where it is from.
func precedence(c *Config, d drawn) (wrong []string) {
	p := c.On.Profile
	if p == nil {
		p = &boards.Profile{}
	}
	from := map[string]Value{}
	for _, v := range c.On.Values {
		from[v.Setting] = v
	}
	want := func(name string, got any, file, board, builtIn any, inFile, onBoard bool) {
		value, origin := builtIn, "built in"
		switch {
		case inFile:
			value, origin = file, "weir.yaml:"
		case onBoard:
			value, origin = board, "board "+c.On.ID
		}
		if got != value || !strings.HasPrefix(from[name].From, origin) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, from %q; want %v from %q", name, got, from[name].From, value, origin))
		}
	}
	pl := c.Pipelines[0]
	ms, s := time.Millisecond, time.Second
	want("journal.linger", c.Journal.Linger, time.Duration(d.linger)*ms, time.Duration(p.Journal.LingerMs)*ms, 5*ms, d.linger > 0, p.Journal.LingerMs > 0)
	want("pipelines.p.checkpoint.interval", pl.Checkpoint.Interval, time.Duration(d.every)*s, time.Duration(p.Checkpoint.IntervalS)*s, 10*s, d.every > 0, p.Checkpoint.IntervalS > 0)
	want("pipelines.p.checkpoint.retained", pl.Checkpoint.Retained, d.keep, p.Checkpoint.LocalKeep, 3, d.keep > 0, p.Checkpoint.LocalKeep > 0)
	want("flash.tbw", c.Flash.TBW, int64(0), p.Flash.TBW, int64(0), false, p.Flash.TBW > 0)
	want("flash.governor", c.Flash.Governor, "", p.Flash.Governor, GovernorOn, false, p.Flash.Governor != "")
	want("flash.max_linger", c.Flash.LingerMax, 2*s, time.Duration(p.Flash.MaxLingerMs)*ms, s, d.stretch, p.Flash.MaxLingerMs > 0)
	want("led.status", c.LED.Status, d.led, p.LEDs.Status, "", d.led != "", p.LEDs.Status != "")
	if pl.CommitIntervalMs != pl.Checkpoint.Interval.Milliseconds() {
		wrong = append(wrong, "the plan knows another interval")
	}
	return wrong
}

// TestPrecedence: on any machine, with any board in the config.
func TestPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawConfig(t)
		c, err := Parse("weir.yaml", []byte(d.text))
		if err != nil {
			t.Fatalf("%v\n%s", err, d.text)
		}
		f := machineOf(rapid.SampledFrom(boards.Index()).Draw(t, "machine"))
		for range 2 { // a repeat changes nothing
			if err := c.Settle(f); err != nil {
				t.Fatal(err)
			}
			if wrong := precedence(c, d); len(wrong) > 0 {
				t.Fatalf("board %s: %s\n%s", c.On.ID, strings.Join(wrong, "\n"), d.text)
			}
		}
	})
}

// TestPrecedenceFindsTheFault: a board that overrides the file is found.
func TestPrecedenceFindsTheFault(t *testing.T) {
	d := drawn{text: "board: rpi4\n" + small + "    checkpoint: {interval: 7s}\n", every: 7}
	for _, planted := range []bool{false, true} {
		c := mustParse(t, d.text)
		c.boardFirst = planted
		if err := c.Settle(boards.Facts{}); err != nil {
			t.Fatal(err)
		}
		if found := len(precedence(c, d)) > 0; found != planted {
			t.Errorf("planted %v: found %v", planted, found)
		}
	}
}

// TestMachinesNobodyKnowsKeepTheDefaults: they are what they were before there were boards, and so is a config that was not settled, on any machine.
func TestMachinesNobodyKnowsKeepTheDefaults(t *testing.T) {
	want := mustParse(t, small)
	for _, board := range []string{"", "board: none\n", "board: generic-arm64\n"} {
		c := mustParse(t, board+small)
		if err := c.Settle(boards.Facts{Machine: "aarch64", Compatible: []string{"acme,gateway"}}); err != nil {
			t.Fatal(err)
		}
		if c.Journal.Linger != want.Journal.Linger || c.Pipelines[0].Checkpoint != want.Pipelines[0].Checkpoint || c.Flash != want.Flash || c.LED != (LED{}) {
			t.Errorf("%q: %+v %+v %+v", board, c.Journal, c.Pipelines[0].Checkpoint, c.LED)
		}
	}
}

// TestBoardKeepsThePlan: what a board sets is no part of a plan.
func TestBoardKeepsThePlan(t *testing.T) {
	a, b := mustParse(t, small), mustParse(t, small)
	if err := b.Settle(boards.Facts{Machine: "aarch64", Compatible: []string{"raspberrypi,4-model-b"}}); err != nil {
		t.Fatal(err)
	}
	if a.Pipelines[0].Graph.Hash != b.Pipelines[0].Graph.Hash || a.Digest() != b.Digest() {
		t.Error("the board is in the plan's hash or the config's digest")
	}
	if text := plan.Explain(&b.Pipelines[0].Spec, b.Pipelines[0].Graph); !strings.Contains(text, "up to 1m") {
		t.Errorf("it does not say how long results wait here:\n%s", text)
	}
}

// TestRegionsAreSettled: the parts of a pipeline have its checkpoints, also when they were made before.
func TestRegionsAreSettled(t *testing.T) {
	c := mustParse(t, small+"    restart: {failover: region}\n")
	_ = c.Pipelines[0].Regions()
	if err := c.Settle(boards.Facts{Machine: "aarch64", Compatible: []string{"raspberrypi,4-model-b"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Pipelines[0].Regions() {
		if r.Checkpoint.Interval != time.Minute || r.CommitIntervalMs != 60000 {
			t.Errorf("%s: %v", r.Name, r.Checkpoint.Interval)
		}
	}
}

func TestBoardWords(t *testing.T) {
	_, err := Parse("weir.yaml", []byte("board: rack-7\n"+small))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:1:8: found \"rack-7\"") || !strings.Contains(err.Error(), "board_serial") {
		t.Errorf("%v", err)
	}
	c := mustParse(t, "board: none\nboard_serial: rack-7\nled: {status: none, alarm: PWR}\n"+small)
	if status, alarm := c.LED.Names(); c.Board != "none" || c.BoardSerial != "rack-7" || status != "" || alarm != "PWR" {
		t.Errorf("%+v", c.LED)
	}
}

func TestMemoryOfTheEnvironmentWins(t *testing.T) {
	c := mustParse(t, "board: rpi4\n"+small)
	if err := c.Settle(boards.Facts{}); err != nil {
		t.Fatal(err)
	}
	f := boards.Facts{RAM: 4 << 30}
	if n, v := c.MemoryLimit(f, ""); n != 96<<20 || v.Value != "96MiB" || v.From != "board rpi4" {
		t.Errorf("%d, %+v", n, v)
	}
	if n, v := c.MemoryLimit(f, "1GiB"); n != 0 || v.From != "the environment" {
		t.Errorf("%d, %+v", n, v)
	}
}

// TestForeignBoard: a board that the config names and the machine cannot be is told; what a 64-bit board may well say of itself under a system of 32 bits is not, nor what was found, nor
// what is not known.
func TestForeignBoard(t *testing.T) {
	for _, c := range []struct {
		board, machine string
		want           string // "": no warning
	}{
		{"rpi4", "x86_64", "weir.yaml:1:8: board rpi4 has a processor of kind arm64, this machine says x86_64"},
		{"generic-armv7", "x86_64", "board: auto takes generic-amd64 here"},
		{"generic-amd64", "aarch64", "board: auto takes generic-arm64 here"},
		{"rpi4", "riscv64", "board: none takes the built-in ones"},
		{"rpi4", "aarch64", ""}, {"rpi4", "armv8l", ""}, {"rpi4", "armv7l", ""}, {"generic-armv7", "aarch64", ""},
		{"generic-amd64", "x86_64", ""}, {"rpi4", "", ""}, {"auto", "x86_64", ""}, {"none", "x86_64", ""},
	} {
		cfg := mustParse(t, "board: "+c.board+"\n"+small)
		for range 2 { // a repeat changes nothing
			if err := cfg.Settle(boards.Facts{Machine: c.machine}); err != nil {
				t.Fatal(err)
			}
			if got := cfg.On.Foreign; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("board %s on %q: %q, want %q", c.board, c.machine, got, c.want)
			}
		}
	}
}
