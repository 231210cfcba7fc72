package upgrade

import (
	"maps"
	"strings"
	"testing"

	"github.com/weirstream/weir/fleet/document"
)

// TestBroken: a manifest may promise to read less; all else has to be as the program says.
func TestBroken(t *testing.T) {
	is := document.Compat{Formats: map[string]document.Versions{"journal": {Least: 1, Most: 3, Writes: 3}, "outbox": {Least: 2, Most: 2, Writes: 2}},
		State: map[string]document.Versions{"window.acc": {Least: 1, Most: 2, Writes: 2}}, Behaviours: map[string]uint64{"window": 2}}
	for name, c := range map[string]struct {
		change func(p *document.Compat)
		want   string
	}{
		"the same":             {func(*document.Compat) {}, ""},
		"reads less":           {func(p *document.Compat) { p.Formats["journal"] = document.Versions{Least: 2, Most: 3, Writes: 3} }, ""},
		"reads older":          {func(p *document.Compat) { p.Formats["outbox"] = document.Versions{Least: 1, Most: 2, Writes: 2} }, "reads outbox from version 1 to 2, and the program reads 2 to 2"},
		"reads newer":          {func(p *document.Compat) { p.State["window.acc"] = document.Versions{Least: 1, Most: 3, Writes: 2} }, "reads state window.acc from version 1 to 3"},
		"writes older":         {func(p *document.Compat) { p.Formats["journal"] = document.Versions{Least: 1, Most: 3, Writes: 2} }, "writes journal version 2, and the program writes 3"},
		"a format more":        {func(p *document.Compat) { p.Formats["ledger"] = document.Versions{Least: 1, Most: 1, Writes: 1} }, "promises ledger"},
		"a format less":        {func(p *document.Compat) { delete(p.Formats, "outbox") }, "does not tell of outbox"},
		"a kind of state less": {func(p *document.Compat) { delete(p.State, "window.acc") }, "does not tell of state window.acc"},
		"another behaviour":    {func(p *document.Compat) { p.Behaviours["window"] = 1 }, "behaviour 1 of window, and the program has 2"},
		"a behaviour less":     {func(p *document.Compat) { delete(p.Behaviours, "window") }, "behaviour 0 of window"},
		"nothing":              {func(p *document.Compat) { *p = document.Compat{} }, "does not tell of journal"},
	} {
		p := document.Compat{Formats: maps.Clone(is.Formats), State: maps.Clone(is.State), Behaviours: maps.Clone(is.Behaviours)}
		c.change(&p)
		why := strings.Join(Broken(p, is), "; ")
		if c.want == "" && why != "" || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
	if len(Broken(is, document.Compat{})) != 4 {
		t.Error("a program that says nothing of itself keeps promises")
	}
}
