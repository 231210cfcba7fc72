package expr

import (
	"os"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// docEnv has the fields of the message on the page, with the kinds that it shows.
type docEnv struct {
	names []string
	slots []pipeline.Value
}

func (e *docEnv) Names() []string { return e.names }

func (e *docEnv) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	for i, n := range e.names {
		if n == p.String() {
			return i, e.slots[i].Kind, nil
		}
	}
	return testEnv{}.Field(p)
}

func newDocEnv(t *testing.T, message string) *docEnv {
	t.Helper()
	e := &docEnv{names: []string{"temp", "count", "on", "state", "missing", "big", "motor.rpm", "motor.phases[1]", "motor", "odd name", "code", "raw", "device", "$topic"}}
	e.slots = make([]pipeline.Value, len(e.names))
	var fields []codec.Field
	for i, n := range e.names {
		p, err := pipeline.ParsePath(n)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, codec.Field{Path: p, Slot: i})
	}
	if err := codec.NewJSON(fields, -1, codec.Default()).Decode([]byte(message), e.slots); err != nil {
		t.Fatal(err)
	}
	e.slots[len(e.slots)-1] = pipeline.StringValue("site/north/dev/press-017/telemetry")
	return e
}

// blocks gives the fenced blocks of a language.
func blocks(page, language string) []string {
	var all []string
	for {
		_, rest, ok := strings.Cut(page, "\n```"+language+"\n")
		if !ok {
			return all
		}
		block, after, _ := strings.Cut(rest, "\n```")
		all, page = append(all, block), "\n"+after
	}
}

// TestDocumentedExamples executes docs/expressions.md.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	env := newDocEnv(t, blocks(string(page), "json")[0])
	n := 0
	used := map[string]bool{}
	for _, block := range blocks(string(page), "expr") {
		for line := range strings.Lines(block) {
			src, want, ok := strings.Cut(strings.TrimSpace(line), "→")
			if !ok {
				t.Errorf("no arrow in %q", line)
				continue
			}
			src, want = strings.TrimSpace(src), strings.TrimSpace(want)
			if got := explain(src, env, used); got != want && !(strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want)) {
				t.Errorf("%s\n  gives %s\n  want  %s", src, got, want)
			}
			n++
		}
	}
	if n < 100 {
		t.Errorf("only %d examples were found", n)
	}
	for name := range functions {
		if !used[name] {
			t.Errorf("function %s has no example", name)
		}
	}
}

// explain is the value, or error, of an expression as the page writes it.
func explain(src string, env *docEnv, used map[string]bool) string {
	p, err := Compile(src, env)
	if err != nil {
		_, message, _ := strings.Cut(err.Error(), ": ")
		return "refused: " + message
	}
	root, _ := parse(src)
	root.walk(func(n *node) { used[n.op] = true })
	v := p.Eval(env.slots)
	if v.Kind == pipeline.Error {
		return "error: " + v.Str
	}
	var b strings.Builder
	writeConst(&b, v)
	return b.String()
}
