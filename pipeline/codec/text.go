package codec

import (
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// textDecoder gives the payload as the field "value".
type textDecoder struct {
	fields []Field
	whole  int
}

// NewText makes a decoder for plain text. Its only field is "value": the text as it is or, when declared a number or a
// bool, read strictly after the white space around it is cut. whole is the value as JSON text. Other fields are null.
func NewText(fields []Field, whole int, _ Limits) Decoder {
	return &textDecoder{fields: fields, whole: whole}
}

func (d *textDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	clearSlots(d.fields, slots)
	if !utf8.Valid(payload) {
		return &Error{Reason: "invalid UTF-8", Offset: invalidUTF8(payload)}
	}
	value := pipeline.StringValue(view(payload))
	for _, f := range d.fields {
		if !isValueField(f.Path) {
			continue
		}
		v, reason := textValue(payload, f.Kind)
		if reason != "" {
			return &Error{Reason: reason, Offset: -1, Field: ValueField}
		}
		slots[f.Slot], value = v, v
	}
	return storeWhole(d.whole, value, slots)
}

func isValueField(p pipeline.Path) bool { return len(p) == 1 && p[0].Name == ValueField }

// textValue reads text as the declared kind. Numbers follow JSON's grammar: no "+5", no ".5", no "nan".
func textValue(payload []byte, kind pipeline.Kind) (pipeline.Value, string) {
	switch kind {
	case pipeline.Null, pipeline.String:
		return pipeline.StringValue(view(payload)), ""
	case pipeline.Bytes:
		return pipeline.BytesValue(view(payload)), ""
	}
	text := strings.TrimSpace(view(payload))
	switch kind {
	case pipeline.Bool:
		if text == "true" || text == "false" {
			return pipeline.BoolValue(text == "true"), ""
		}
	case pipeline.Int, pipeline.Uint, pipeline.Float:
		return ParseNumber(text, kind)
	}
	return pipeline.Value{}, "declared " + kind.String() + ", found " + excerpt(text)
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// storeWhole sets the slot of the whole document to v as JSON text.
func storeWhole(whole int, v pipeline.Value, slots []pipeline.Value) error {
	if whole < 0 {
		return nil
	}
	text, err := AppendValue(nil, v)
	if err != nil {
		return &Error{Reason: err.Error(), Offset: -1}
	}
	slots[whole] = pipeline.JSONValue(view(text))
	return nil
}

// bytesDecoder gives the payload as the field "value", whatever it is.
type bytesDecoder struct {
	fields []Field
	whole  int
}

// NewBytes makes a decoder that never refuses: its only field is "value", of kind Bytes. whole is base64 text in JSON.
func NewBytes(fields []Field, whole int, _ Limits) Decoder {
	return &bytesDecoder{fields: fields, whole: whole}
}

func (d *bytesDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	clearSlots(d.fields, slots)
	value := pipeline.BytesValue(view(payload))
	for _, f := range d.fields {
		if !isValueField(f.Path) {
			continue
		}
		if f.Kind != pipeline.Null && f.Kind != pipeline.Bytes {
			return &Error{Reason: "declared " + f.Kind.String() + ", found bytes", Offset: -1, Field: ValueField}
		}
		slots[f.Slot] = value
	}
	return storeWhole(d.whole, value, slots)
}
