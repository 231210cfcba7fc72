package compat

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/pipeline/plan"
)

// exempt are constants that look like a version of something kept, and are none.
var exempt = map[string]string{
	"store/boltkv.boltVersion":   "of bbolt's own pages, which its library keeps",
	"pipeline/ops.ringVersion":   "of the state ops.zscore, version 1: kinds has it",
	"pipeline/ops.blocksVersion": "of the state ops.zscore, version 2: kinds has it",
}

// facts are what the sources say.
type facts struct {
	all       map[string]uint64            // package.name: value
	constants map[string]uint64            // those of a version
	forms     map[string]uint64            // file#Reads: value
	types     map[string]bool              // of state
	specs     map[string]map[uint64]string // type: version: where
}

var (
	versionName = regexp.MustCompile(`(?:[vV]ersion|^format|Format)$|^flagsKnown$|^kind[A-Z]|^Entry[A-Z]`)
	stateType   = regexp.MustCompile(`^(?:exec|join|ops|window)\.[a-z][a-z.]*[a-z]$`)
)

// collect reads the sources below a folder.
func (f *facts) collect(t *testing.T, root string) {
	t.Helper()
	for _, top := range []string{"agent", "pipeline", "snapshot", "store", "uplink"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			switch name := d.Name(); {
			case err != nil:
				return err
			case d.IsDir() && (name == "testdata" || strings.HasSuffix(name, "test") || name == "compat"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				f.read(rel, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *facts) read(path string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				f.readConstants(filepath.Dir(path), n)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && stateType.MatchString(text) {
				f.types[text] = true
			}
		case *ast.CompositeLit:
			f.readLiteral(path, n)
		case *ast.CallExpr: // open(tables, name, type, version)
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "open" && len(n.Args) == 4 {
				f.spec(path, n.Args[2], n.Args[3])
			}
		}
		return true
	})
}

func (f *facts) readConstants(dir string, d *ast.GenDecl) {
	for _, s := range d.Specs {
		v := s.(*ast.ValueSpec)
		for i, name := range v.Names {
			if i >= len(v.Values) {
				continue
			}
			n, ok := f.number(dir, v.Values[i])
			if !ok {
				continue
			}
			f.all[dir+"."+name.Name] = n
			if versionName.MatchString(name.Name) {
				f.constants[dir+"."+name.Name] = n
			}
		}
	}
}

// number is the value of a literal, a shift, or an or of constants before it.
func (f *facts) number(dir string, e ast.Expr) (uint64, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		switch e.Kind {
		case token.INT:
			n, err := strconv.ParseUint(e.Value, 0, 64)
			return n, err == nil
		case token.CHAR:
			r, _, _, err := strconv.UnquoteChar(e.Value[1:], '\'')
			return uint64(r), err == nil
		}
	case *ast.BinaryExpr:
		if e.Op == token.OR { // flagsKnown: all bits below the highest are given out
			a, okA := f.number(dir, e.X)
			b, okB := f.number(dir, e.Y)
			return a | b, okA && okB
		}
		if e.Op == token.SHL {
			a, okA := f.number(dir, e.X)
			b, okB := f.number(dir, e.Y)
			return a << b, okA && okB
		}
	case *ast.Ident:
		n, ok := f.all[dir+"."+e.Name]
		return n, ok
	}
	return 0, false
}

func (f *facts) readLiteral(path string, n *ast.CompositeLit) {
	s, ok := n.Type.(*ast.SelectorExpr)
	if !ok {
		return
	}
	fields := map[string]ast.Expr{}
	for _, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				fields[key.Name] = kv.Value
			}
		}
	}
	switch fmt.Sprint(s.X, ".", s.Sel) {
	case "record.Form":
		if v, ok := f.number(filepath.Dir(path), fields["Reads"]); ok {
			if _, literal := fields["Reads"].(*ast.BasicLit); literal {
				f.forms[path+"#Reads"] = v
			}
		}
	case "state.Spec":
		if fields["Type"] != nil && fields["Version"] != nil {
			f.spec(path, fields["Type"], fields["Version"])
		}
	}
}

// spec notes a type with its version, where both stand there.
func (f *facts) spec(path string, typ, version ast.Expr) {
	lit, ok := typ.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	name, _ := strconv.Unquote(lit.Value)
	if v, ok := f.number(filepath.Dir(path), version); ok {
		if f.specs[name] == nil {
			f.specs[name] = map[uint64]string{}
		}
		f.specs[name][v] = path
	}
}

// differences tell what list and sources do not have in common.
func (f *facts) differences(list []Format, state map[string][2]uint64) (wrong []string) {
	used := map[string]bool{}
	for _, row := range list {
		have, there := f.value(row.Constant, used)
		if !there || have != row.Writes || row.Most < row.Writes || row.Least > row.Writes {
			wrong = append(wrong, fmt.Sprintf("%s: %s is %d, and compat says that %d is written, %d to %d read", row.Name, row.Constant, have, row.Writes, row.Least, row.Most))
		}
	}
	for name, v := range f.constants {
		if !used[name] && exempt[name] == "" {
			wrong = append(wrong, fmt.Sprintf("%s (%d) is not in compat", name, v))
		}
	}
	for name := range f.forms {
		if !used[name] {
			wrong = append(wrong, name+" is not in compat")
		}
	}
	for name := range f.types {
		if _, there := state[name]; !there {
			wrong = append(wrong, "state "+name+" is not in compat")
		}
	}
	for name, versions := range f.specs {
		highest := uint64(0)
		for v := range versions {
			highest = max(highest, v)
		}
		if state[name][1] != highest {
			wrong = append(wrong, fmt.Sprintf("state %s has version %d, and compat says %d", name, highest, state[name][1]))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// value finds what a row names, and notes what it stands for.
func (f *facts) value(constant string, used map[string]bool) (v uint64, there bool) {
	prefix, all := strings.CutSuffix(constant, "*")
	if !all {
		used[constant] = true
		if v, there = f.constants[constant]; !there {
			v, there = f.forms[constant]
		}
		return v, there
	}
	for name, n := range f.constants {
		if strings.HasPrefix(name, prefix) {
			used[name] = true
			v, there = max(v, n), true
		}
	}
	return v, there
}

func sources(t *testing.T) *facts {
	f := &facts{all: map[string]uint64{}, constants: map[string]uint64{}, forms: map[string]uint64{}, types: map[string]bool{}, specs: map[string]map[uint64]string{}}
	f.collect(t, filepath.Join("..", ".."))
	f.collect(t, filepath.Join("..", "..")) // once more: a constant may stand behind the one that is made of it
	return f
}

func state() map[string][2]uint64 {
	m := map[string][2]uint64{}
	for name, v := range kinds {
		m[name] = [2]uint64{v.Least, v.Writes}
	}
	return m
}

// TestCompatIsWhole: every version of something kept is listed, with its value.
func TestCompatIsWhole(t *testing.T) {
	f := sources(t)
	for _, wrong := range f.differences(formats, state()) {
		t.Error(wrong)
	}
	if len(f.constants) < 40 || len(f.types) < 25 || len(f.specs) < 20 || len(f.forms) != 3 {
		t.Errorf("%d constants, %d types, %d specs, %d forms were found", len(f.constants), len(f.types), len(f.specs), len(f.forms))
	}
	if c := Current(); len(c.Formats) != len(formats) || len(c.State) != len(kinds) || len(c.Behaviours) != len(plan.Behaviours()) {
		t.Error("two rows have one name")
	}
	for name := range exempt {
		if _, there := f.constants[name]; !there {
			t.Errorf("%s is exempt, and there is none", name)
		}
	}
}

// TestCompatFindsWhatIsMissing plants what somebody may forget.
func TestCompatFindsWhatIsMissing(t *testing.T) {
	base := sources(t)
	for name, plant := range map[string]func(*facts){
		"store/journal.entryVersion": func(f *facts) { f.constants["store/journal.entryVersion"] = 1 },
		"store/log.frameVersion":     func(f *facts) { f.constants["store/log.frameVersion"] = 2 },
		"pipeline.Entry":             func(f *facts) { f.constants["pipeline.EntryNews"] = 12 },
		"agent/news.go#Reads":        func(f *facts) { f.forms["agent/news.go#Reads"] = 1 },
		"state ops.news":             func(f *facts) { f.types["ops.news"] = true },
		"state ops.sort":             func(f *facts) { f.specs["ops.sort"][2] = "" },
	} {
		f := &facts{constants: maps.Clone(base.constants), forms: maps.Clone(base.forms), types: maps.Clone(base.types), specs: map[string]map[uint64]string{}}
		for kind, versions := range base.specs {
			f.specs[kind] = maps.Clone(versions)
		}
		plant(f)
		if wrong := f.differences(formats, state()); len(wrong) != 1 || !strings.Contains(wrong[0], name) {
			t.Errorf("planted %s: %v", name, wrong)
		}
	}
}

// TestCompatFitsAManifest: a release takes it as it is.
func TestCompatFitsAManifest(t *testing.T) {
	sha := strings.Repeat("a", 64)
	r := &document.Release{
		Fleet: "f", Version: "1", CreatedMs: 1, SecureVersion: 1, MinSecureVersion: 1,
		Artifacts: []document.Artifact{{Backend: "self", Arch: "arm64", Bytes: 100, SHA256: sha, ChunkBytes: 64 << 10, Chunks: []string{sha}, Compat: Current()}},
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := document.DecodeRelease(b)
	if err != nil || !reflect.DeepEqual(got.Artifacts[0].Compat, Current()) {
		t.Errorf("%v: %s", err, b)
	}
	if why := upgrade.Compatible(Current(), Current(), nil, false); len(why) > 0 {
		t.Errorf("a program does not follow itself: %q", why)
	}
}
