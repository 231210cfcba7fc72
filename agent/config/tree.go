package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/weirstream/weir/pipeline/plan"
)

// Limits of a config file: above them it is refused before the YAML parser sees it.
const (
	fileBytesMax = 1 << 20
	linesMax     = 20000 // the parser's time grows with the square of a mapping's length: this many take some seconds
	depthMax     = 64
)

// shape is what a node of the file is.
type shape uint8

const (
	shapeNull shape = iota
	shapeScalar
	shapeMapping
	shapeList
	shapeRefused // its problem is noted: nobody reads it
)

// scalar is what YAML takes a plain scalar for.
type scalar uint8

const (
	scalarString scalar = iota
	scalarInt
	scalarFloat
	scalarBool
)

// node is a part of the file, freed from YAML's variety: no anchors, aliases, tags or merges.
type node struct {
	pos      plan.Pos
	shape    shape
	scalar   scalar
	text     string // of a scalar, as written, without quotes
	verbatim bool
	entries  []entry
	items    []*node
}

type entry struct {
	key   *node
	value *node
}

func (n *node) toText() plan.Text {
	return plan.Text{Value: n.text, Pos: n.pos, Verbatim: n.verbatim}
}

// describe tells an operator what stands there.
func (n *node) describe() string {
	switch n.shape {
	case shapeNull:
		return "nothing"
	case shapeMapping:
		return "a mapping"
	case shapeList:
		return "a list"
	}
	switch n.scalar {
	case scalarInt:
		return "the number " + n.text
	case scalarFloat:
		return "the number " + n.text
	case scalarBool:
		return "the truth value " + n.text
	}
	return quote(n.text)
}

// quoteRunesMax bounds what an error message repeats of the file.
const quoteRunesMax = 80

func quote(s string) string {
	if r := []rune(s); len(r) > quoteRunesMax {
		s = string(r[:quoteRunesMax]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// tree reads YAML into nodes. A file that is not YAML gives one problem; nil means an empty file or an unusable one.
func tree(file string, data []byte, problems *plan.Problems) (root *node) {
	at := plan.Pos{File: file, Line: 1, Column: 1}
	switch {
	case len(data) > fileBytesMax:
		problems.Add(at, "", fmt.Sprintf("at most %d bytes are read", fileBytesMax), "the file has %d bytes", len(data))
		return nil
	case !utf8.Valid(data):
		problems.Add(invalidUTF8(file, data), "", "", "the file is not valid UTF-8 here")
		return nil
	case bytes.Count(data, []byte("\n")) > linesMax:
		problems.Add(at, "", fmt.Sprintf("at most %d lines are read", linesMax), "the file has %d lines", bytes.Count(data, []byte("\n")))
		return nil
	case tooDeep(data):
		problems.Add(at, "", fmt.Sprintf("at most %d levels are read", depthMax), "the file is nested too deep")
		return nil
	}
	defer func() { // the YAML parser is not ours
		if r := recover(); r != nil {
			root = nil
			problems.Add(at, "", "", "the file is not valid YAML: %s", oneLine(fmt.Sprint(r)))
		}
	}()
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		*problems = append(*problems, syntaxProblem(file, err))
		return nil
	}
	w := walker{file: file, problems: problems}
	for i, doc := range parsed.Docs {
		if i == 0 {
			root = w.node(doc.Body, 0)
			continue
		}
		if doc.Body != nil {
			problems.Add(w.pos(doc.Body), "", "a config file holds one document", "a second YAML document begins here")
		}
	}
	return root
}

func invalidUTF8(file string, data []byte) plan.Pos {
	at := plan.Pos{File: file, Line: 1, Column: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		at.Column++
		if r == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
		data = data[size:]
	}
	return at
}

// tooDeep bounds the recursion of the YAML parser: brackets and the "- - -" of one line. Depth by indentation is bounded by
// the lines; the walk refuses it.
func tooDeep(data []byte) bool {
	flow := 0
	for line := range strings.Lines(string(data)) {
		if marks := line[:len(line)-len(strings.TrimLeft(line, " -?"))]; strings.Count(marks, "-")+strings.Count(marks, "?") > depthMax {
			return true
		}
		for i := range len(line) {
			switch line[i] {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			}
			if flow > depthMax {
				return true
			}
		}
	}
	return false
}

func syntaxProblem(file string, err error) plan.Problem {
	p := plan.Problem{Pos: plan.Pos{File: file, Line: 1, Column: 1}}
	var located interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &located) {
		p.Found = "the file is not valid YAML: " + oneLine(located.GetMessage())
		if strings.HasPrefix(located.GetMessage(), "invalid header option") {
			p.Allowed = `text that begins with > or | stands in quotes: "> 8"`
		}
		if tk := located.GetToken(); tk != nil && tk.Position != nil {
			p.Pos.Line, p.Pos.Column = tk.Position.Line, tk.Position.Column
		}
		return p
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	p.Found = "the file is not valid YAML: " + oneLine(first)
	return p
}

// oneLine makes text of the YAML parser, which repeats the file, fit for a line of a terminal.
func oneLine(text string) string {
	clean := plan.Printable(text)
	if r := []rune(clean); len(r) > 2*quoteRunesMax {
		clean = string(r[:2*quoteRunesMax]) + "…"
	}
	return clean
}

type walker struct {
	file     string
	problems *plan.Problems
}

func (w *walker) pos(n ast.Node) plan.Pos {
	at := plan.Pos{File: w.file, Line: 1, Column: 1}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		at.Line, at.Column = tk.Position.Line, tk.Position.Column
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return w.pos(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return w.pos(m.Key)
	}
	return at
}

func (w *walker) refuse(n ast.Node, what string) *node {
	w.problems.Add(w.pos(n), "", "write the value out; quote text that begins with ! & * or %", "%s are not supported", what)
	return &node{pos: w.pos(n), shape: shapeRefused}
}

// node converts; what cannot be converted becomes shapeRefused, its problem noted. nil stays nil.
func (w *walker) node(n ast.Node, depth int) *node {
	if depth > depthMax {
		w.problems.Add(w.pos(n), "", fmt.Sprintf("at most %d levels are read", depthMax), "the file is nested too deep")
		return &node{pos: w.pos(n), shape: shapeRefused}
	}
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.NullNode:
		return &node{pos: w.pos(n), shape: shapeNull, text: n.Token.Value}
	case *ast.BoolNode:
		return w.scalar(n.Token, scalarBool)
	case *ast.IntegerNode:
		return w.scalar(n.Token, scalarInt)
	case *ast.FloatNode:
		return w.scalar(n.Token, scalarFloat)
	case *ast.InfinityNode:
		return w.scalar(n.Token, scalarFloat)
	case *ast.NanNode:
		return w.scalar(n.Token, scalarFloat)
	case *ast.StringNode:
		s := w.scalar(n.Token, scalarString)
		if n.Token.Type == token.StringType && exponential.MatchString(n.Value) {
			s.scalar = scalarFloat
		}
		s.text = n.Value
		return s
	case *ast.LiteralNode:
		return &node{pos: w.pos(n), shape: shapeScalar, text: strings.TrimSuffix(n.Value.Value, "\n")}
	case *ast.MappingNode:
		return w.mapping(n, n.Values, depth)
	case *ast.MappingValueNode:
		return w.mapping(n, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out := &node{pos: w.pos(n), shape: shapeList}
		for _, v := range n.Values {
			if item := w.node(v, depth+1); item != nil && item.shape != shapeRefused {
				out.items = append(out.items, item)
			}
		}
		return out
	case *ast.AnchorNode, *ast.AliasNode:
		return w.refuse(n, "YAML anchors and aliases")
	case *ast.TagNode:
		return w.refuse(n, "YAML tags")
	case *ast.DirectiveNode:
		return w.refuse(n, "YAML directives")
	}
	return w.refuse(n, "YAML nodes of type "+n.Type().String())
}

// exponential is a number with an exponent but without a point. It is one in YAML 1.2 (10.3.2), and text to the library.
var exponential = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func (w *walker) scalar(tk *token.Token, as scalar) *node {
	n := &node{shape: shapeScalar, scalar: as, text: tk.Value}
	n.pos = plan.Pos{File: w.file, Line: tk.Position.Line, Column: tk.Position.Column}
	written := strings.TrimSpace(tk.Origin)
	switch tk.Type {
	case token.DoubleQuoteType, token.SingleQuoteType:
		if n.verbatim = len(written) == len(tk.Value)+2 && written[1:len(written)-1] == tk.Value; n.verbatim {
			n.pos.Column++
		}
	default:
		n.verbatim = written == tk.Value
	}
	return n
}

func (w *walker) mapping(of ast.Node, values []*ast.MappingValueNode, depth int) *node {
	out := &node{pos: w.pos(of), shape: shapeMapping}
	for _, v := range values {
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			w.refuse(v.Key, "YAML merge keys")
			continue
		}
		keyNode, ok := v.Key.(ast.Node)
		if !ok {
			continue
		}
		if k, explicit := keyNode.(*ast.MappingKeyNode); explicit {
			keyNode = k.Value
		}
		key := w.node(keyNode, depth+1)
		if key == nil || key.shape == shapeRefused {
			continue
		}
		if key.shape == shapeMapping || key.shape == shapeList {
			w.problems.Add(key.pos, "", "a key is a name", "%s stands as a key", key.describe())
			continue
		}
		value := w.node(v.Value, depth+1)
		if value == nil {
			value = &node{pos: key.pos, shape: shapeNull}
		}
		out.entries = append(out.entries, entry{key: key, value: value})
	}
	return out
}
