package upgrade

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modelled is what the model has met: states, events and the states that take them, causes, acts.
type modelled map[string]bool

// event notes one that made another record.
func (s modelled) event(r, n *Record, k Kind) {
	if s == nil || same(r, n) && r.State == n.State {
		return
	}
	s["Kind "+string(k)], s["State "+string(r.State)], s["State "+string(n.State)] = true, true, true
	s["Cause "+string(n.Cause)] = true
	s[string(k)+" in "+string(r.State)] = true
}

func (s modelled) act(a Act) {
	if s != nil {
		s["Do "+string(a.Do)], s["Running "+string(a.Run)] = true, true
	}
}

// lacking are the constants that the model has not met, and the events that a state takes and that have not come in it.
func (s modelled) lacking(t *testing.T) (list []string) {
	t.Helper()
	for name, is := range constants(t, "Kind", "State", "Cause", "Do", "Running") {
		if !s[is] {
			list = append(list, fmt.Sprintf("%s (%s)", name, is))
		}
	}
	for taken := range takenEvents(t) {
		if !s[taken] {
			list = append(list, taken)
		}
	}
	slices.Sort(list)
	return list
}

// takenEvents are those that make another record of one of anyRecords, each in its state.
func takenEvents(t *testing.T) modelled {
	t.Helper()
	taken := modelled{}
	for _, is := range constants(t, "Kind") {
		kind := Kind(strings.TrimPrefix(is, "Kind "))
		for _, r := range anyRecords() {
			for _, booted := range []Slot{Factory, SlotA, SlotB} {
				for _, rescue := range []bool{false, true} {
					e := Event{Kind: kind, Booted: booted, Rescue: rescue, Name: "p", Why: "w", Cause: CauseGate}
					e.Record = Record{Target: Target{Version: "new2", SHA256: digests["new2"]}, Active: booted, Standby: SlotB}
					if n, err := Next(r, e); err == nil {
						taken.event(&r, &n, kind)
					}
				}
			}
		}
	}
	return taken
}

// constants are those of the package that have one of the types, by their names.
func constants(t *testing.T, types ...string) map[string]string {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for name, f := range packages["upgrade"].Files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				of, ok := v.Type.(*ast.Ident)
				for i := range v.Names {
					for _, want := range types {
						if ok && of.Name == want {
							text, err := strconv.Unquote(v.Values[i].(*ast.BasicLit).Value)
							if err != nil {
								t.Fatal(err)
							}
							found[v.Names[i].Name] = want + " " + text
						}
					}
				}
			}
		}
	}
	return found
}
