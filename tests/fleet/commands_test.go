package fleet

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/fleet/document"
)

// commands has the whole fleet make a savepoint, and one gateway restart; some are killed within. Each is done once, and its result is there.
func (p *plant) commands() {
	p.t.Helper()
	p.must(p.gateways[0].dieAt("fleet-begin-after"))
	p.must(p.gateways[1].dieAt("fleet-ended"))
	p.must(p.gateways[2].dieAt("fleet-result-after"))
	p.deploy(0, "published: all-save for commands/stable", "fleet", "savepoint", "--all", "--id", "all-save")
	p.ring()
	for _, g := range p.gateways {
		p.result(g, "all-save", document.ResultDone)
	}
	for i, g := range p.gateways {
		made, err := filepath.Glob(filepath.Join(g.root, "var/lib/weir/savepoints/fleet-commands-*"))
		p.must(err)
		if len(made) != 1 {
			p.t.Errorf("%s has made %d savepoints, want 1: %v", g.name, len(made), made)
		}
		if i < 3 && !g.died() {
			p.t.Errorf("%s was not killed within the command", g.name)
		}
	}
	for _, problem := range p.restart(p.gateways[3]) {
		p.t.Error(problem)
	}
	one := p.gateways[4]
	p.deploy(0, "published: one-save for device/"+one.name, "fleet", "savepoint", one.name, "--id", "one-save", "--upload")
	p.ring()
	if r := p.result(one, "one-save", document.ResultDone); r != nil {
		if len(r.Files) != 1 {
			p.t.Errorf("%+v", r)
		} else if _, _, err := p.depot.Bucket.Get(p.t.Context(), r.Files[0]); err != nil {
			p.t.Errorf("its file is not in the store: %v", err)
		}
	}
	p.deploy(0, "published", "fleet", "command", "diagnostics", one.name, "--id", "look", "--upload")
	p.ring()
	p.result(one, "look", document.ResultDone)
	for _, g := range p.gateways {
		list := p.results(g)
		want := 1
		switch g {
		case p.gateways[3]:
			want = 2
		case one:
			want = 3
		}
		if len(list) != want {
			p.t.Errorf("%s has %d results, want %d: %+v", g.name, len(list), want, list)
		}
	}
}

// restart has one gateway's process end and start again by a command, and tells when that was not once.
func (p *plant) restart(g *gateway) (problems []string) {
	p.t.Helper()
	id := "restart-" + fmt.Sprint(g.started())
	before := g.started()
	p.deploy(0, "published: "+id, "fleet", "command", "restart", g.name, "--id", id)
	p.ring()
	p.await("the restart of "+g.name, func() (bool, string) {
		if g.started() > before+1 { // more than once: nobody need wait for its result
			return true, ""
		}
		s := g.status(p.t.Context())
		return g.started() == before+1 && runs(s) && s.Fleet.Commands[document.ResultDone] > 0, fmt.Sprintf("%d starts, %s", g.started()-before, standingOf(s))
	})
	if n := g.started() - before; n != 1 {
		return []string{fmt.Sprintf("%s was started %d times by one command", g.name, n)}
	}
	p.result(g, id, document.ResultDone)
	return nil
}

// result waits for what came of a command, and wants it to be as given.
func (p *plant) result(g *gateway, id, want string) (r *document.Result) {
	p.t.Helper()
	p.awaitTold("the result of "+id+" on "+g.name, func() (bool, string) {
		for _, one := range p.results(g) {
			if one.ID == id {
				r = one
			}
		}
		return r != nil, standingOf(g.status(p.t.Context()))
	})
	if r.Result != want {
		p.t.Errorf("%s on %s: %s, want %s: %s", id, g.name, r.Result, want, r.Detail)
	}
	return r
}

// results are what weir fleet results has of a gateway.
func (p *plant) results(g *gateway) (list []*document.Result) {
	p.t.Helper()
	out, code := p.try(nil, append([]string{"fleet", "results", g.name, "-o", "json"}, p.flags()...)...)
	if err := json.Unmarshal(lineOf(out, "["), &list); err != nil || code != 0 {
		p.t.Fatalf("exit code %d: %v: %s", code, err, out)
	}
	return list
}
