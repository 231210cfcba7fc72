package codec

import (
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/weirstream/weir/pipeline"
)

// cborDecoder extracts fields from CBOR (RFC 8949). The library checks that a payload is well-formed and within the
// limits; the walk over it is ours, since it stores only what is wanted and keeps integers exact.
type cborDecoder struct {
	root   *node
	fields []Field
	whole  int
	limits cbor.DecMode

	slots    []pipeline.Value
	document uint64
}

// NewCBOR makes a CBOR decoder. Map keys are text or integers (the path names an integer key by its decimal digits). whole is
// the item as JSON text: members in their order, byte strings as base64, big numbers with all their digits. Any other tag,
// those of times too, stands for its content.
func NewCBOR(fields []Field, whole int, l Limits) Decoder {
	l = l.orDefault()
	mode, err := cbor.DecOptions{
		MaxNestedLevels:  l.Depth,
		MaxArrayElements: l.Elements,
		MaxMapPairs:      l.Elements,
		IndefLength:      cbor.IndefLengthAllowed,
		TagsMd:           cbor.TagsAllowed,
	}.DecMode()
	if err != nil {
		panic("BUG: limits in range are refused: " + err.Error())
	}
	return &cborDecoder{root: newTree(fields), fields: fields, whole: whole, limits: mode}
}

func (d *cborDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	if libraryCutsLengths {
		if at, found := lengthBeyond31Bits(payload); found {
			return &Error{Reason: "a length is too large", Offset: at}
		}
	}
	if err := d.limits.Wellformed(payload); err != nil {
		return wellformedError(err)
	}
	clearSlots(d.fields, slots)
	d.slots = slots
	d.document++
	r := cborReader{src: payload}
	err := d.item(&r, d.root)
	d.slots = nil
	if err != nil {
		return err
	}
	if d.whole >= 0 {
		r = cborReader{src: payload}
		text, err := r.appendJSON(nil)
		if err != nil {
			return err
		}
		slots[d.whole] = pipeline.JSONValue(view(text))
	}
	return nil
}

func wellformedError(err error) error {
	var trailing *cbor.ExtraneousDataError
	if errors.As(err, &trailing) {
		return &Error{Reason: "data behind the end of the CBOR item", Offset: -1}
	}
	return &Error{Reason: err.Error(), Offset: -1}
}

// item walks the item at r. n is nil when nothing in it is wanted: text in it is checked all the same.
func (d *cborDecoder) item(r *cborReader, n *node) error {
	start := r.at
	h := r.head()
	wanted := n != nil && len(n.targets) > 0
	switch h.major {
	case majorArray, majorMap:
		if err := d.children(r, h, n); err != nil || !wanted {
			return err
		}
		return d.storeContainer(r.src, start, h.major, n)
	case majorTag:
		return d.tag(r, h, start, n)
	case majorBytes:
		b := r.chunks(h)
		if wanted {
			return d.store(start, n, pipeline.BytesValue(view(b)))
		}
		return nil
	case majorText:
		b := r.chunks(h)
		if !utf8.Valid(b) {
			return &Error{Reason: "invalid UTF-8 in text", Offset: start}
		}
		if wanted {
			return d.store(start, n, pipeline.StringValue(view(b)))
		}
		return nil
	}
	if !wanted {
		return nil
	}
	v, reason := h.scalar()
	if reason != "" {
		return &Error{Reason: reason, Offset: start, Field: n.path}
	}
	return d.store(start, n, v)
}

// children walks an array or a map.
func (d *cborDecoder) children(r *cborReader, h cborHead, n *node) error {
	for i := 0; !r.done(&h); i++ {
		var child *node
		if h.major == majorArray {
			if n != nil && len(n.elements) > 0 {
				child = n.element(i)
			}
		} else {
			at := r.at
			var buf [24]byte
			key, err := r.key(buf[:0])
			if err != nil {
				return err
			}
			if n != nil && len(n.members) > 0 {
				child = n.member(key)
			}
			if child != nil {
				if child.seen == d.document {
					return &Error{Reason: "the key comes twice", Offset: at, Field: child.path}
				}
				child.seen = d.document
			}
		}
		if err := d.item(r, child); err != nil {
			return err
		}
	}
	return nil
}

// tag reads big numbers as integers; any other tag stands for its content.
func (d *cborDecoder) tag(r *cborReader, h cborHead, start int, n *node) error {
	if h.arg == tagBigPositive || h.arg == tagBigNegative {
		content := r.head()
		if content.major != majorBytes {
			return &Error{Reason: "a big number holds bytes", Offset: start}
		}
		b := r.chunks(content)
		if n == nil || len(n.targets) == 0 {
			return nil
		}
		v, ok := bigInteger(b, h.arg == tagBigNegative)
		if !ok {
			return &Error{Reason: reasonInteger, Offset: start, Field: n.path}
		}
		return d.store(start, n, v)
	}
	return d.item(r, n)
}

// storeContainer stores a wanted array or map as JSON text.
func (d *cborDecoder) storeContainer(src []byte, start int, major byte, n *node) error {
	found := "an array"
	if major == majorMap {
		found = "a map"
	}
	r := cborReader{src: src, at: start}
	text, err := r.appendJSON(nil)
	if err != nil {
		return err
	}
	for _, t := range n.targets {
		if t.kind != pipeline.Null && t.kind != pipeline.JSON {
			return declared(start, n, t.kind, found)
		}
		d.slots[t.slot] = pipeline.JSONValue(view(text))
	}
	return nil
}

func declared(at int, n *node, want pipeline.Kind, found string) error {
	return &Error{Reason: "declared " + want.String() + ", found " + found, Offset: at, Field: n.path}
}

// store puts a scalar into the slots as its declared kinds.
func (d *cborDecoder) store(at int, n *node, v pipeline.Value) error {
	if v.IsNull() {
		return nil
	}
	for _, t := range n.targets {
		w := v
		switch {
		case t.kind == pipeline.Null || t.kind == v.Kind:
		case t.kind == pipeline.JSON:
			text, err := AppendValue(nil, v)
			if err != nil {
				return &Error{Reason: err.Error(), Offset: at, Field: n.path}
			}
			w = pipeline.JSONValue(view(text))
		case t.kind == pipeline.Float && v.IsNumber():
			f, _ := v.AsFloat()
			w = pipeline.FloatValue(f)
		case (t.kind == pipeline.Int || t.kind == pipeline.Uint) && v.IsNumber():
			var reason string
			if w, reason = integral(v, t.kind); reason != "" {
				return &Error{Reason: reason, Offset: at, Field: n.path}
			}
		default:
			return declared(at, n, t.kind, v.Kind.String())
		}
		d.slots[t.slot] = w
	}
	return nil
}

// integral turns a number into an integer where it is one.
func integral(v pipeline.Value, kind pipeline.Kind) (pipeline.Value, string) {
	if v.Kind == pipeline.Float {
		f := v.Float()
		switch {
		case f != math.Trunc(f):
			return v, "declared " + kind.String() + ", found number " + strconv.FormatFloat(f, 'g', -1, 64)
		case f >= 1<<64 || f < -1<<63:
			return v, reasonInteger
		case f < 0:
			v = pipeline.IntValue(int64(f))
		default:
			v = pipeline.UintValue(uint64(f))
		}
	}
	if kind == pipeline.Uint && v.Kind == pipeline.Int && v.Int() < 0 {
		return v, reasonNegative
	}
	return v, ""
}
