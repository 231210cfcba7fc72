package codec

import (
	"encoding/base64"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// bom is the UTF-8 byte order mark. One is allowed, and skipped, at the very start of a document.
const bom = "\uFEFF"

// jsonDecoder is a strict RFC 8259 scanner that stores wanted fields on its way. Its state is that of one document.
type jsonDecoder struct {
	root   *node
	fields []Field
	whole  int
	limits Limits

	src      []byte
	slots    []pipeline.Value
	document uint64 // rises by one per document
	memory   []byte // for texts with escapes; never written twice
	failed   *Error
}

// NewJSON makes a JSON decoder that fills the fields, and the slot whole (unless it is -1) with the text of the document
// without the white space around it.
func NewJSON(fields []Field, whole int, l Limits) Decoder {
	return &jsonDecoder{root: newTree(fields), fields: fields, whole: whole, limits: l.orDefault()}
}

func (d *jsonDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	d.src, d.slots, d.failed = payload, slots, nil
	d.document++
	clearSlots(d.fields, slots)
	end := d.run()
	d.src, d.slots = nil, nil
	if end < 0 {
		return d.failed
	}
	return nil
}

// run scans the document: its end, or -1.
func (d *jsonDecoder) run() int {
	start := 0
	if len(d.src) >= len(bom) && string(d.src[:len(bom)]) == bom {
		start = len(bom)
	}
	start = skipSpace(d.src, start)
	end := d.value(start, 0, d.root)
	if end < 0 {
		return -1
	}
	if rest := skipSpace(d.src, end); rest < len(d.src) {
		return d.fail(rest, "data behind the end of the document: "+found(d.src, rest))
	}
	if d.whole >= 0 {
		d.slots[d.whole] = pipeline.JSONValue(view(d.src[start:end]))
	}
	return end
}

func (d *jsonDecoder) fail(at int, reason string) int {
	d.failed = &Error{Reason: reason, Offset: at}
	return -1
}

func (d *jsonDecoder) failField(at int, n *node, reason string) int {
	d.failed = &Error{Reason: reason, Offset: at, Field: n.path}
	return -1
}

// value scans the value at i. n is nil when nothing in it is wanted.
func (d *jsonDecoder) value(i, depth int, n *node) int {
	if i >= len(d.src) {
		return d.fail(i, "unexpected end: want a value")
	}
	switch d.src[i] {
	case '"':
		if n != nil && len(n.targets) > 0 {
			return d.storeText(i, n)
		}
		end, _ := d.text(i)
		return end
	case '{':
		return d.container(i, d.object(i, depth, n), n)
	case '[':
		return d.container(i, d.array(i, depth, n), n)
	case 't':
		return d.literal(i, "true", pipeline.BoolValue(true), n)
	case 'f':
		return d.literal(i, "false", pipeline.BoolValue(false), n)
	case 'n':
		return d.literal(i, "null", pipeline.Value{}, n)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return d.number(i, n)
	}
	return d.fail(i, "want a value, found "+found(d.src, i))
}

func (d *jsonDecoder) literal(i int, text string, v pipeline.Value, n *node) int {
	end := i + len(text)
	if end > len(d.src) || string(d.src[i:end]) != text {
		return d.fail(i, "want a value, found "+found(d.src, i))
	}
	if n == nil || v.IsNull() {
		return end
	}
	for _, t := range n.targets {
		switch t.kind {
		case pipeline.Null, pipeline.Bool:
			d.slots[t.slot] = v
		case pipeline.JSON:
			d.slots[t.slot] = pipeline.JSONValue(view(d.src[i:end]))
		default:
			return d.mismatch(i, n, t.kind, "bool")
		}
	}
	return end
}

func (d *jsonDecoder) mismatch(at int, n *node, want pipeline.Kind, got string) int {
	return d.failField(at, n, fmt.Sprintf("declared %s, found %s", want, got))
}

// object scans from the opening brace.
func (d *jsonDecoder) object(i, depth int, n *node) int {
	if depth >= d.limits.Depth {
		return d.fail(i, fmt.Sprintf("nested deeper than %d levels", d.limits.Depth))
	}
	if n != nil {
		n.hint = 0
		if len(n.members) == 0 {
			n = nil
		}
	}
	i = skipSpace(d.src, i+1)
	if i < len(d.src) && d.src[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(d.src) || d.src[i] != '"' {
			return d.fail(i, "want a key in double quotes, found "+found(d.src, i))
		}
		end, escaped := d.text(i)
		if end < 0 {
			return -1
		}
		var child *node
		if n != nil {
			key := d.src[i+1 : end-1]
			if escaped {
				key = unescape(key)
			}
			if child = n.member(key); child != nil {
				if child.seen == d.document {
					return d.failField(i, child, "the key comes twice")
				}
				child.seen = d.document
			}
		}
		i = skipSpace(d.src, end)
		if i >= len(d.src) || d.src[i] != ':' {
			return d.fail(i, "want \":\" behind the key, found "+found(d.src, i))
		}
		if i = d.value(skipSpace(d.src, i+1), depth+1, child); i < 0 {
			return -1
		}
		i = skipSpace(d.src, i)
		if i >= len(d.src) {
			return d.fail(i, "unexpected end: want \",\" or \"}\"")
		}
		switch d.src[i] {
		case ',':
			i = skipSpace(d.src, i+1)
		case '}':
			return i + 1
		default:
			return d.fail(i, "want \",\" or \"}\", found "+found(d.src, i))
		}
	}
}

// array scans from the opening bracket.
func (d *jsonDecoder) array(i, depth int, n *node) int {
	if depth >= d.limits.Depth {
		return d.fail(i, fmt.Sprintf("nested deeper than %d levels", d.limits.Depth))
	}
	if n != nil && len(n.elements) == 0 {
		n = nil
	}
	i = skipSpace(d.src, i+1)
	if i < len(d.src) && d.src[i] == ']' {
		return i + 1
	}
	for index := 0; ; index++ {
		var child *node
		if n != nil {
			child = n.element(index)
		}
		if i = d.value(i, depth+1, child); i < 0 {
			return -1
		}
		i = skipSpace(d.src, i)
		if i >= len(d.src) {
			return d.fail(i, "unexpected end: want \",\" or \"]\"")
		}
		switch d.src[i] {
		case ',':
			i = skipSpace(d.src, i+1)
		case ']':
			return i + 1
		default:
			return d.fail(i, "want \",\" or \"]\", found "+found(d.src, i))
		}
	}
}

// container stores a wanted object or array as its text.
func (d *jsonDecoder) container(i, end int, n *node) int {
	if end < 0 || n == nil {
		return end
	}
	for _, t := range n.targets {
		if t.kind != pipeline.Null && t.kind != pipeline.JSON {
			return d.mismatch(i, n, t.kind, containerName(d.src[i]))
		}
		d.slots[t.slot] = pipeline.JSONValue(view(d.src[i:end]))
	}
	return end
}

func containerName(c byte) string {
	if c == '{' {
		return "an object"
	}
	return "an array"
}

// storeText stores the string at i..end, quotes included.
func (d *jsonDecoder) storeText(i int, n *node) int {
	end, raw := d.wantedText(i)
	if end < 0 {
		return -1
	}
	for _, t := range n.targets {
		switch t.kind {
		case pipeline.Null, pipeline.String:
			d.slots[t.slot] = pipeline.StringValue(view(raw))
		case pipeline.JSON:
			d.slots[t.slot] = pipeline.JSONValue(view(d.src[i:end]))
		case pipeline.Bytes:
			b, err := base64.StdEncoding.Strict().DecodeString(view(raw))
			if err != nil {
				return d.failField(i, n, "declared bytes, found text that is not base64")
			}
			d.slots[t.slot] = pipeline.BytesValue(view(b))
		default:
			return d.mismatch(i, n, t.kind, "text "+excerpt(view(raw)))
		}
	}
	return end
}

// number scans and, when wanted, stores the number at i.
func (d *jsonDecoder) number(i int, n *node) int {
	if v, end := shortInteger(d.src, i); end > 0 {
		if n == nil || len(n.targets) == 0 {
			return end
		}
		if len(n.targets) == 1 && (n.targets[0].kind == pipeline.Null || n.targets[0].kind == pipeline.Int) {
			d.slots[n.targets[0].slot] = v
			return end
		}
	}
	num, end, bad := scanNumber(d.src, i)
	if bad != "" {
		return d.fail(end, bad)
	}
	if n == nil {
		return end
	}
	for _, t := range n.targets {
		v, reason := num.value(view(d.src[i:end]), t.kind)
		if reason != "" {
			return d.failField(i, n, reason)
		}
		d.slots[t.slot] = v
	}
	return end
}
