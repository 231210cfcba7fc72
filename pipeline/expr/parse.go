package expr

import (
	"strconv"

	"github.com/weirstream/weir/pipeline"
)

// envName stands for the message itself: $env["odd name"].
const envName = "$env"

// reserved words cannot be names of fields at the beginning of a path; write $env["in"] for such a field.
var reserved = map[string]bool{"true": true, "false": true, "null": true, "nil": true, "and": true, "or": true, "not": true,
	"in": true, "contains": true, "startsWith": true, "endsWith": true, "matches": true}

// binary operators: canonical form and how tightly they bind. As in expr-lang.
var binary = map[string]struct {
	op    string
	binds int
}{
	"||": {"||", 1}, "or": {"||", 1},
	"&&": {"&&", 2}, "and": {"&&", 2},
	"==": {"==", 3}, "!=": {"!=", 3}, "<": {"<", 3}, "<=": {"<=", 3}, ">": {">", 3}, ">=": {">=", 3},
	"in": {"in", 3}, "not": {"in", 3}, "contains": {"contains", 3}, "startsWith": {"startsWith", 3}, "endsWith": {"endsWith", 3}, "matches": {"matches", 3},
	"+": {"+", 4}, "-": {"-", 4},
	"*": {"*", 5}, "/": {"/", 5}, "%": {"%", 5},
	"??": {"??", 8},
}

const (
	bindsCompare = 3
	bindsSum     = 4
	bindsNot     = 6 // "!" and "not" bind tighter than comparisons, as in expr-lang
	bindsSign    = 7
)

type parser struct {
	tokens []token
	at     int
	nodes  int
	open   int // depth of the recursion
}

func parse(src string) (*node, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := parser{tokens: tokens}
	n, bad := p.expression()
	if bad == nil && p.peek().kind != tokenEnd {
		bad = p.unexpected("an operator or the end")
	}
	if bad != nil {
		return nil, bad
	}
	return n, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func (p *parser) take(mark string) bool {
	if p.peek().is(mark) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(mark string) *Error {
	if !p.take(mark) {
		return p.unexpected(strconv.Quote(mark))
	}
	return nil
}

func (p *parser) unexpected(want string) *Error {
	t := p.peek()
	e := t.fail("want %s, found %s", want, t)
	switch {
	case t.is("="):
		e.Suggest = "=="
	case t.is("**"):
		e.Msg, e.Suggest = "there is no operator **", "pow"
	}
	return e
}

// add makes a node around its kids and counts it.
func (p *parser) add(n node) (*node, *Error) {
	for _, k := range n.kids {
		n.depth = max(n.depth, k.depth+1)
	}
	p.nodes++
	switch {
	case p.nodes > NodesMax:
		return nil, n.fail("the expression has more than %d parts", NodesMax)
	case n.depth > DepthMax:
		return nil, n.fail("the expression is nested deeper than %d levels", DepthMax)
	}
	return &n, nil
}

// expression reads a condition with its branches, or what binds tighter.
func (p *parser) expression() (*node, *Error) {
	p.open++
	defer func() { p.open-- }()
	if p.open > DepthMax {
		return nil, p.peek().fail("the expression is nested deeper than %d levels", DepthMax)
	}
	cond, err := p.operators(1)
	if err != nil || !p.take("?") {
		return cond, err
	}
	yes, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.want(":"); err != nil {
		return nil, err
	}
	no, err := p.expression()
	if err != nil {
		return nil, err
	}
	return p.add(node{kind: nodeCond, kids: []*node{cond, yes, no}, at: cond.at, end: no.end})
}

// operators reads operations that bind at least as tightly as lowest.
func (p *parser) operators(lowest int) (*node, *Error) {
	left, err := p.unary()
	for err == nil {
		t := p.peek()
		o, ok := binary[t.text]
		if !ok || t.kind == tokenValue || o.binds < lowest {
			break
		}
		if o.binds == bindsCompare && left.compares() && !left.parens {
			return nil, t.fail("comparisons do not chain: join two of them with \"&&\"")
		}
		p.at++
		if o.op == "in" {
			left, err = p.membership(left, t)
			continue
		}
		var right *node
		if right, err = p.operators(o.binds + 1); err == nil {
			left, err = p.add(node{kind: nodeBinary, op: o.op, kids: []*node{left, right}, at: left.at, end: right.end})
		}
	}
	return left, err
}

func (n *node) compares() bool {
	return n.kind == nodeIn || n.kind == nodeBinary && binary[n.op].binds == bindsCompare
}

// membership reads what follows "in" or "not".
func (p *parser) membership(left *node, t token) (*node, *Error) {
	n := node{kind: nodeIn, op: "in", kids: []*node{left}, at: left.at}
	if t.text == "not" {
		n.negate = true
		if in := p.next(); in.kind != tokenName || in.text != "in" {
			return nil, in.fail("want \"in\" behind \"not\", found %s", in)
		}
	}
	if open := p.peek(); p.take("[") {
		kids, end, err := p.list("]")
		if err != nil {
			return nil, err
		}
		if len(kids) == 0 {
			return nil, open.fail("the list is empty: nothing is in it")
		}
		n.kids, n.end = append(n.kids, kids...), end
		return p.add(n)
	}
	low, err := p.operators(bindsSum)
	if err != nil {
		return nil, err
	}
	if !p.take("..") {
		return nil, p.peek().fail("want a list [a, b] or a range a..b behind \"in\", found %s", p.peek())
	}
	high, err := p.operators(bindsSum)
	if err != nil {
		return nil, err
	}
	n.kids, n.ranged, n.end = append(n.kids, low, high), true, high.end
	return p.add(n)
}

// list reads expressions up to the closing mark.
func (p *parser) list(closing string) (kids []*node, end int, err *Error) {
	for !p.peek().is(closing) {
		if len(kids) > 0 {
			if err := p.want(","); err != nil {
				return nil, 0, err
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, 0, err
		}
		kids = append(kids, k)
	}
	return kids, p.next().end, nil
}

func (p *parser) unary() (*node, *Error) {
	t := p.peek()
	switch {
	case t.is("!") || t.kind == tokenName && t.text == "not":
		return p.prefixed("!", bindsNot)
	case t.is("-"):
		return p.prefixed("-", bindsSign)
	case t.is("+"):
		p.at++
		return p.operators(bindsSign)
	}
	return p.primary()
}

func (p *parser) prefixed(op string, binds int) (*node, *Error) {
	p.open++
	defer func() { p.open-- }()
	t := p.next()
	if p.open > DepthMax {
		return nil, t.fail("the expression is nested deeper than %d levels", DepthMax)
	}
	kid, err := p.operators(binds)
	if err != nil {
		return nil, err
	}
	return p.add(node{kind: nodeUnary, op: op, kids: []*node{kid}, at: t.at, end: kid.end})
}

func (p *parser) primary() (*node, *Error) {
	t := p.peek()
	switch {
	case t.kind == tokenValue:
		p.at++
		return p.constant(t, t.value)
	case t.is("("):
		p.at++
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.at, n.end, n.parens = t.at, p.peek().end, true
		return n, p.want(")")
	case t.is("["):
		return nil, t.fail("a list stands only behind \"in\"")
	case t.kind != tokenName:
		return nil, p.unexpected("a value")
	}
	p.at++
	switch t.text {
	case "true", "false":
		return p.constant(t, pipeline.BoolValue(t.text == "true"))
	case "null", "nil":
		return p.constant(t, pipeline.Value{})
	}
	if reserved[t.text] {
		p.at--
		return nil, p.unexpected("a value")
	}
	if p.peek().is("(") {
		return p.call(t)
	}
	return p.field(t)
}

func (p *parser) constant(t token, v pipeline.Value) (*node, *Error) {
	return p.add(node{kind: nodeConst, value: v, at: t.at, end: t.end})
}

func (p *parser) call(name token) (*node, *Error) {
	p.at++
	kids, end, err := p.list(")")
	if err != nil {
		return nil, err
	}
	return p.add(node{kind: nodeCall, op: name.text, kids: kids, at: name.at, end: end})
}

// field reads a path: name, .name, [0], ["name"].
func (p *parser) field(first token) (*node, *Error) {
	n := node{kind: nodeField, at: first.at, end: first.end}
	if first.text != envName {
		n.path = pipeline.Path{{Name: first.text}}
	}
	for {
		switch {
		case p.take("."):
			t := p.next()
			if t.kind != tokenName {
				return nil, t.fail("want a name behind \".\", found %s", t)
			}
			n.path, n.end = append(n.path, pipeline.PathElem{Name: t.text}), t.end
		case p.peek().is("["):
			p.at++
			t := p.next()
			e, err := indexElem(t)
			if err != nil {
				return nil, err
			}
			n.path, n.end = append(n.path, e), p.peek().end
			if err := p.want("]"); err != nil {
				return nil, err
			}
		default:
			if len(n.path) == 0 || n.path[0].Name == "" {
				return nil, first.fail("want a name: %s[\"name\"]", envName)
			}
			return p.add(n)
		}
	}
}

func indexElem(t token) (pipeline.PathElem, *Error) {
	if t.kind == tokenValue && t.value.Kind == pipeline.String && t.value.Str != "" {
		return pipeline.PathElem{Name: t.value.Str}, nil
	}
	if t.kind == tokenValue && t.value.Kind == pipeline.Int && t.value.Int() <= indexMax {
		return pipeline.PathElem{Index: int(t.value.Int())}, nil
	}
	return pipeline.PathElem{}, t.fail("want a constant index up to %d or a name in quotes, found %s", indexMax, t)
}

// indexMax bounds array indexes: it fits an int on 32-bit boards.
const indexMax = 1<<20 - 1

// Fields gives the paths that an expression reads, each once, in order of first use. The error is an *Error.
func Fields(src string) ([]pipeline.Path, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	var all []pipeline.Path
	seen := map[string]bool{}
	root.walk(func(n *node) {
		if n.kind == nodeField && !seen[n.String()] {
			seen[n.String()] = true
			all = append(all, n.path)
		}
	})
	return all, nil
}

// walk visits the node and all below it, from left to right.
func (n *node) walk(f func(*node)) {
	f(n)
	for _, k := range n.kids {
		k.walk(f)
	}
}

// Call is an aggregate as written in a config: name(arguments). Each argument is an expression of its own.
type Call struct {
	Name string
	Args []string
	At   []int // offset of each argument
}

// ParseCall splits avg(temp) or percentile(temp, 99). The arguments are parsed, not checked. The error is an *Error.
func ParseCall(src string) (Call, error) {
	root, err := parse(src)
	if err != nil {
		return Call{}, err
	}
	if root.kind != nodeCall {
		return Call{}, root.fail("want name(arguments), such as avg(temp)")
	}
	c := Call{Name: root.op}
	for _, k := range root.kids {
		c.Args, c.At = append(c.Args, src[k.at:k.end]), append(c.At, k.at)
	}
	return c, nil
}
