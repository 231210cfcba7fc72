package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only the goroutine of a test may end it: Fatal in another one ends that alone, and behind the end of the test it ends the whole run of the package, other
// tests with it. What a goroutine of a test finds it returns, or says with Error while the test waits for it.

// enders end a test.
var enders = []string{"Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow"}

// TestGoroutinesDoNotEndTests: neither by themselves nor by a function that was given the test.
func TestGoroutinesDoNotEndTests(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		for _, bad := range goroutineEnders(t, path, nil) {
			t.Errorf("%s: %s", strings.TrimPrefix(path, root+string(filepath.Separator)), bad)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGoroutineRuleFindsABreach plants breaches.
func TestGoroutineRuleFindsABreach(t *testing.T) {
	for body, want := range map[string]int{
		"go func() { t.Fatal(1) }()":                                        1,
		"wg.Go(func() { if x { s.t.Fatalf(``) } })":                         1,
		"wg.Go(func() { server.Restart(t) })":                               1,
		"go serve(t)":                                                       1,
		"uplinktest.Break(t, 0, func() error { n.Restart(t); return nil })": 1,
		"wg.Go(func() { b.FailNow() })":                                     1,
		"wg.Go(func() { t.Error(1); done <- f(t.Context()) })":              0,
		"t.Run(``, func(t *testing.T) { t.Fatal(server.Restart(t)) })":      0,
	} {
		source := "package p\nfunc f() {\n" + body + "\n}\n"
		if got := goroutineEnders(t, "planted.go", source); len(got) != want {
			t.Errorf("%s: found %v, want %d", body, got, want)
		}
	}
}

// goroutineEnders gives the places of a file where a goroutine may end a test.
func goroutineEnders(t *testing.T, path string, source any) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		body := started(n)
		if body == nil {
			return true
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if why := ends(call); why != "" {
					found = append(found, fmt.Sprintf("line %d: a goroutine %s", set.Position(call.Pos()).Line, why))
				}
			}
			return true
		})
		return false
	})
	return found
}

// starters run their last argument in a goroutine: those of a group, a breaker, a server.
var starters = []string{"Go", "Break", "HandlerFunc", "AfterFunc"}

// started is what a statement or a call runs in a goroutine. nil: nothing.
func started(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(starters, s.Sel.Name) && len(n.Args) > 0 {
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

// ends tells how a call may end a test: it is Fatal or the like, or a function that is given the test itself.
func ends(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(enders, s.Sel.Name) && isTest(s.X) {
		return "calls " + s.Sel.Name
	}
	for _, arg := range call.Args {
		if name, ok := arg.(*ast.Ident); isTest(arg) && (!ok || name.Name != "b") { // b is also many a batch
			return "gives the test away, which may end it"
		}
	}
	return ""
}

// isTest knows a test by the names that all of them have here.
func isTest(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "t" || x.Name == "b" || x.Name == "tb"
	case *ast.SelectorExpr:
		return x.Sel.Name == "t" || x.Sel.Name == "T"
	}
	return false
}
