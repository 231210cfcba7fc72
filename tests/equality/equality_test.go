package equality

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
)

// drawn is one case.
type drawn struct {
	text    string
	entries []pipeline.Entry
	all     streams
	counts  []exec.StepLedger // of the undisturbed run
	lives   []life
}

func (d *drawn) graph(t fatal) func() *plan.Graph {
	return func() *plan.Graph { return compile(t, d.text) }
}

func draw(t *rapid.T) *drawn { return drawWith(t, drawConfig(t)) }

// drawWindow draws a pipeline of one window.
func drawWindow(t *rapid.T, kind string) *drawn {
	return drawWith(t, drawConfigOf(t, func(d *drawing) {
		maxKeys := ""
		if rapid.IntRange(0, 3).Draw(t, "few keys") == 0 {
			maxKeys = ", max_keys: 2"
		}
		d.otherWindow("s0", kind, maxKeys)
	}))
}

func drawWith(t *rapid.T, text string) *drawn {
	d := &drawn{text: text, entries: drawJournal(t)}
	d.text, d.entries = anySource(t, d.text, d.entries)
	d.all, d.counts = undisturbed(t, compile(t, d.text), d.entries)
	d.lives = drawLives(t, len(d.entries))
	return d
}

// TestStreamsAreEqual: checkpoints in memory, so that thousands of pipelines are tried.
func TestStreamsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, &memoryKeeper{}); wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
	})
}

// TestPlantedFaultsAreFound: a source whose event time is not restored, a step whose state is not, a forgotten abort must show.
func TestPlantedFaultsAreFound(t *testing.T) {
	source := func(uid string) bool { return strings.HasPrefix(uid, "$source/") }
	step := func(uid string) bool { return !source(uid) }
	for name, keep := range map[string]func() keeper{
		"watermark not restored":     func() keeper { return &memoryKeeper{hide: source} },
		"state not restored":         func() keeper { return &memoryKeeper{hide: step} },
		"changes of an abort forgot": func() keeper { return &memoryKeeper{forget: true} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 400 {
				d := rapid.Custom(draw).Example(seed)
				if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, keep()); wrong != "" {
					t.Logf("found with example %d: %s", seed, wrong)
					return
				}
			}
			t.Fatal("not found")
		})
	}
}
