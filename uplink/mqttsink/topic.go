package mqttsink

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline/topic"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/jsonrow"
)

// template is a topic with places for columns of the row.
type template struct {
	texts   []string // before the first column, between them, behind the last one
	columns []string
}

// topicBytesMax is MQTT's limit of a topic.
const topicBytesMax = 65535

func parseTopic(text string) (*template, error) {
	p, err := topic.ParseTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("mqtt sink: %w", err)
	}
	return &template{p.Texts, p.Columns}, nil
}

// streamPart gives what a name that begins with $ stands for.
func streamPart(s uplink.Stream, name string) (string, bool) {
	switch name {
	case "$gateway":
		return s.Gateway, true
	case "$pipeline":
		return s.Pipeline, true
	case "$sink":
		return s.Sink, true
	}
	return "", false
}

// bind puts the names of a stream in.
func (t *template) bind(s uplink.Stream) *template {
	b := &template{texts: []string{t.texts[0]}}
	for i, name := range t.columns {
		if part, ok := streamPart(s, name); ok {
			b.texts[len(b.texts)-1] += string(appendLevel(nil, []byte(part))) + t.texts[i+1]
			continue
		}
		b.columns, b.texts = append(b.columns, name), append(b.texts, t.texts[i+1])
	}
	return b
}

// append makes the topic of a row. The error says why the row can have none; it is for the row alone.
func (t *template) append(dst, row []byte) ([]byte, error) {
	if len(t.columns) == 0 {
		return append(dst, t.texts[0]...), nil
	}
	values := make([][]byte, len(t.columns))
	err := jsonrow.Members(row, func(name, raw []byte) error {
		for i, c := range t.columns {
			if c != string(name) {
				continue
			}
			switch raw[0] {
			case '{', '[':
				return fmt.Errorf("the topic's column %s is no single value", c)
			case 'n':
			case '"':
				v, err := jsonrow.Unquote(raw)
				if err != nil {
					return err
				}
				values[i] = v
			default:
				values[i] = raw
			}
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, t.texts[0]...)
	for i, v := range values {
		if len(v) == 0 {
			return dst, fmt.Errorf("the row has no value for the topic's column %s", t.columns[i])
		}
		dst = append(appendLevel(dst, v), t.texts[i+1]...)
	}
	if len(dst)-start > topicBytesMax {
		return dst, errors.New("the topic would be longer than 65,535 bytes")
	}
	if dst[start] == '$' { // brokers keep such topics to themselves
		dst = append(dst[:start], append([]byte("%24"), dst[start+1:]...)...)
	}
	return dst, nil
}

// appendLevel makes one level of a topic of any text: what would part levels, match others or end the text is written as %XX.
func appendLevel(dst, text []byte) []byte {
	if bytes.IndexFunc(text, special) < 0 {
		return append(dst, text...)
	}
	for _, r := range string(text) {
		if special(r) {
			dst = fmt.Appendf(dst, "%%%02X", r)
		} else {
			dst = append(dst, string(r)...)
		}
	}
	return dst
}

func special(r rune) bool {
	return r == '/' || r == '+' || r == '#' || r == '%' || r < ' ' || r >= 0x7F && r < 0xA0
}
