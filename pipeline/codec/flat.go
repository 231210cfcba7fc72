package codec

import (
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// Splitter is a Decoder whose payload may hold several records, one a line. Decode takes one of them.
type Splitter interface {
	Decoder
	// Next cuts the first record off. record is empty when nothing is left.
	Next(payload []byte) (record, rest []byte)
}

// flat fills slots from named values without structure: the columns of a CSV line, the tags and fields of a line of line protocol.
// A name with dots is the path that is written the same.
type flat struct {
	fields map[string][]Field
	all    []Field
	whole  int
	seen   map[string]bool // wanted names that the record has given
	text   []byte          // of the whole record as a JSON object
	slots  []pipeline.Value
}

func newFlat(fields []Field, whole int) *flat {
	f := &flat{fields: map[string][]Field{}, all: fields, whole: whole, seen: map[string]bool{}}
	for _, field := range fields {
		name := field.Path.String()
		f.fields[name] = append(f.fields[name], field)
	}
	return f
}

func (f *flat) begin(slots []pipeline.Value) {
	clearSlots(f.all, slots)
	clear(f.seen)
	f.slots = slots
	if f.whole >= 0 {
		f.text = []byte{'{'} // handed out with the record: never used again
	}
}

// put stores a value under its name. convert gives it as the declared kind.
func (f *flat) put(name string, value pipeline.Value, convert func(pipeline.Kind) (pipeline.Value, string)) error {
	if err := f.store(name, value, convert); err != nil || f.whole < 0 {
		return err
	}
	if len(f.text) > 1 {
		f.text = append(f.text, ',')
	}
	return f.write(name, value)
}

// store sets the slots of a name.
func (f *flat) store(name string, value pipeline.Value, convert func(pipeline.Kind) (pipeline.Value, string)) error {
	wanted := f.fields[name]
	if len(wanted) > 0 {
		if f.seen[wanted[0].Path.String()] {
			return &Error{Reason: "the name comes twice", Offset: -1, Field: name}
		}
		f.seen[wanted[0].Path.String()] = true
	}
	for _, field := range wanted {
		v := value
		if field.Kind != pipeline.Null && !value.IsNull() {
			var reason string
			if v, reason = convert(field.Kind); reason != "" {
				return &Error{Reason: reason, Offset: -1, Field: name}
			}
		}
		f.slots[field.Slot] = v
	}
	return nil
}

// write appends a member to the document.
func (f *flat) write(name string, value pipeline.Value) error {
	var err error
	if f.text, err = AppendValue(f.text, pipeline.StringValue(name)); err == nil {
		f.text, err = AppendValue(append(f.text, ':'), value)
	}
	if err != nil {
		return &Error{Reason: err.Error(), Offset: -1, Field: name}
	}
	return nil
}

func (f *flat) end() {
	if f.whole >= 0 {
		f.slots[f.whole] = pipeline.JSONValue(view(append(f.text, '}')))
		f.text = nil
	}
}

// as converts a value that has a kind of its own to the declared one. Numbers become each other where nothing is lost, as in JSON.
func as(v pipeline.Value, kind pipeline.Kind) (pipeline.Value, string) {
	switch {
	case v.Kind == kind:
		return v, ""
	case kind == pipeline.JSON:
		text, err := AppendValue(nil, v)
		if err != nil {
			return v, err.Error()
		}
		return pipeline.JSONValue(view(text)), ""
	case isNumber(v.Kind) && isNumber(kind):
		text, err := AppendValue(nil, v)
		if err != nil {
			return v, err.Error()
		}
		return ParseNumber(view(text), kind)
	}
	return v, "declared " + kind.String() + ", found " + v.Kind.String()
}

func isNumber(k pipeline.Kind) bool {
	return k == pipeline.Int || k == pipeline.Uint || k == pipeline.Float
}

// nextLine cuts a line off; blank lines and, with a comment mark, comments are passed over.
func nextLine(payload []byte, comment string) (line, rest []byte) {
	for len(payload) > 0 {
		text, more, _ := strings.Cut(view(payload), "\n")
		line, rest = payload[:len(text):len(text)], payload[len(payload)-len(more):]
		if t := strings.TrimSpace(text); t != "" && (comment == "" || !strings.HasPrefix(t, comment)) {
			return line, rest
		}
		payload = rest
	}
	return nil, nil
}
