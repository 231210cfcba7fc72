package expr

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

type nodeKind uint8

const (
	nodeConst nodeKind = iota
	nodeField
	nodeUnary  // op: - !
	nodeBinary // op: + - * / % == != < <= > >= && || ?? contains startsWith endsWith matches
	nodeIn     // kids: value, then the list, or the two ends of a range; not: negate
	nodeCond   // kids: condition, then, else
	nodeCall
)

// node is one place of the syntax tree. The checker fills what is below the line.
type node struct {
	kind   nodeKind
	op     string // canonical operator or function name
	kids   []*node
	value  pipeline.Value
	path   pipeline.Path
	negate bool // nodeIn: "not in"
	ranged bool // nodeIn: a..b
	parens bool // in parentheses of its own
	at     int  // source range, for errors
	end    int
	depth  int

	kinds   kindSet
	slot    int
	call    *function
	pattern *regexp.Regexp
}

// kindSet is what a value may be besides null and an error. 0: null only.
type kindSet uint16

const (
	boolMask   kindSet = 1 << pipeline.Bool
	intMask    kindSet = 1<<pipeline.Int | 1<<pipeline.Uint
	floatMask  kindSet = 1 << pipeline.Float
	textMask   kindSet = 1 << pipeline.String
	bytesMask  kindSet = 1 << pipeline.Bytes
	jsonMask   kindSet = 1 << pipeline.JSON
	numberMask         = intMask | floatMask
	anyMask            = boolMask | numberMask | textMask | bytesMask | jsonMask
)

func kindsOf(k pipeline.Kind) kindSet {
	switch k {
	case pipeline.Null:
		return anyMask
	case pipeline.Int, pipeline.Uint:
		return intMask
	}
	return 1 << k
}

// kind is the one kind, or Null.
func (s kindSet) kind() pipeline.Kind {
	switch s {
	case boolMask:
		return pipeline.Bool
	case intMask:
		return pipeline.Int
	case floatMask:
		return pipeline.Float
	case textMask:
		return pipeline.String
	case bytesMask:
		return pipeline.Bytes
	case jsonMask:
		return pipeline.JSON
	}
	return pipeline.Null
}

// String names the kinds for errors.
func (s kindSet) String() string {
	if s == 0 {
		return "null"
	}
	var names []string
	if s&numberMask == numberMask {
		names = append(names, "number")
		s &^= numberMask
	}
	for _, k := range []pipeline.Kind{pipeline.Bool, pipeline.Int, pipeline.Float, pipeline.String, pipeline.Bytes, pipeline.JSON} {
		if s&(1<<k) != 0 {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, " or ")
}

// is tells that the value can be nothing but one of these (or null, or an error).
func (n *node) is(s kindSet) bool { return n.kinds != 0 && n.kinds&^s == 0 }

// can tells that the value may be one of these; null alone may be anything.
func (n *node) can(s kindSet) bool { return n.kinds == 0 || n.kinds&s != 0 }

func (n *node) isConst() bool { return n.kind == nodeConst }

// String writes the tree in canonical form: every inner operation in parentheses.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b, true)
	return b.String()
}

func (n *node) write(b *strings.Builder, top bool) {
	switch n.kind {
	case nodeConst:
		f, _ := n.value.AsFloat()
		if !top && math.Signbit(f) { // the sign binds less tightly than ??
			b.WriteByte('(')
			defer b.WriteByte(')')
		}
		writeConst(b, n.value)
		return
	case nodeField:
		writePath(b, n.path)
		return
	case nodeCall:
		b.WriteString(n.op + "(")
		writeList(b, n.kids)
		b.WriteString(")")
		return
	}
	if !top {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	switch n.kind {
	case nodeUnary:
		b.WriteString(n.op)
		n.kids[0].write(b, false)
	case nodeBinary:
		n.kids[0].write(b, false)
		b.WriteString(" " + n.op + " ")
		n.kids[1].write(b, false)
	case nodeCond:
		n.kids[0].write(b, false)
		b.WriteString(" ? ")
		n.kids[1].write(b, false)
		b.WriteString(" : ")
		n.kids[2].write(b, false)
	case nodeIn:
		n.kids[0].write(b, false)
		if n.negate {
			b.WriteString(" not")
		}
		b.WriteString(" in ")
		if n.ranged {
			n.kids[1].write(b, false)
			b.WriteString("..")
			n.kids[2].write(b, false)
			return
		}
		b.WriteByte('[')
		writeList(b, n.kids[1:])
		b.WriteByte(']')
	}
}

func writeList(b *strings.Builder, kids []*node) {
	for i, k := range kids {
		if i > 0 {
			b.WriteString(", ")
		}
		k.write(b, true)
	}
}

func writeConst(b *strings.Builder, v pipeline.Value) {
	switch v.Kind {
	case pipeline.Null:
		b.WriteString("null")
	case pipeline.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case pipeline.Int:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case pipeline.Uint:
		b.WriteString(strconv.FormatUint(v.Uint(), 10))
	case pipeline.Float:
		s := strconv.FormatFloat(v.Float(), 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		b.WriteString(s)
	default:
		b.WriteString(strconv.Quote(v.Str))
	}
}

// writePath writes a path so that it reads back: a name that is no word goes into brackets.
func writePath(b *strings.Builder, p pipeline.Path) {
	for i, e := range p {
		switch {
		case e.Name == "":
			b.WriteString("[" + strconv.Itoa(e.Index) + "]")
		case !isWord(e.Name, i == 0):
			if i == 0 {
				b.WriteString(envName)
			}
			b.WriteString("[" + strconv.Quote(e.Name) + "]")
		case i > 0:
			b.WriteString("." + e.Name)
		default:
			b.WriteString(e.Name)
		}
	}
}

func isWord(s string, first bool) bool {
	for i := 0; i < len(s); i++ {
		if !isNameStart(s[i]) && (i == 0 || !isDigit(s[i])) || s[i] == '$' && i > 0 {
			return false
		}
	}
	return s != "" && !(first && (reserved[s] || s == envName))
}

// deterministic tells whether the node's value depends on the slots alone.
func (n *node) deterministic() bool {
	if n.call != nil && n.call.chance {
		return false
	}
	for _, k := range n.kids {
		if !k.deterministic() {
			return false
		}
	}
	return true
}
