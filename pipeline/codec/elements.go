package codec

import (
	"iter"

	"github.com/weirstream/weir/pipeline"
)

// Elements gives the elements of an array that a decoder stored as JSON, with their indexes, as JSON text: each may be given
// to a JSON decoder of its own. ok is false when v is no array.
func Elements(v pipeline.Value) (elements iter.Seq2[int, string], ok bool) {
	if v.Kind != pipeline.JSON || v.Str == "" || v.Str[0] != '[' {
		return nil, false
	}
	return func(yield func(int, string) bool) {
		doc := bytesOf(v.Str)
		i := skipSpace(doc, 1)
		for index := 0; i < len(doc) && doc[i] != ']'; index++ {
			end := skipValue(doc, i)
			if !yield(index, v.Str[i:end]) {
				return
			}
			if i = skipSpace(doc, end); i < len(doc) && doc[i] == ',' {
				i = skipSpace(doc, i+1)
			}
		}
	}, true
}

// DecodeElement decodes the JSON text of an element as d.Decode does, without a copy: what is stored refers to it.
func DecodeElement(d Decoder, text string, slots []pipeline.Value) error {
	return d.Decode(bytesOf(text), slots)
}

// skipValue is the end of the value at i of a well-formed document.
func skipValue(doc []byte, i int) int {
	depth := 0
	for i < len(doc) {
		switch doc[i] {
		case '"':
			end, _, bad := scanText(doc, i)
			if bad != "" {
				return len(doc)
			}
			i = end
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		default:
			if depth == 0 && (doc[i] == ',' || isSpace(doc[i])) {
				return i
			}
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return i
}
