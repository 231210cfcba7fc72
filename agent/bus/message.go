package bus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Types of messages and of header fields (D-Bus Specification, "Message Format").
const (
	call, answer, failure, signal = 1, 2, 3, 4

	fieldPath, fieldInterface, fieldMember, fieldError, fieldReply, fieldDestination, fieldSender, fieldSignature = 1, 2, 3, 4, 5, 6, 7, 8
)

// headBytes are those in front of the header's fields' bytes.
const headBytes = 16

var (
	errForm  = errors.New("what came is no message of D-Bus 1")
	errLarge = errors.New("a message is larger than 1 MiB")
)

type message struct {
	kind   byte
	reply  uint32
	fields [10]string
	body   []any
}

// readMessage reads one, with what is in it. An error is final: where the next one begins is not known.
func readMessage(in *bufio.Reader) (message, error) {
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return message{}, err
	}
	order, err := orderOf(head)
	if err != nil {
		return message{}, err
	}
	fields, body := order.Uint32(head[12:]), order.Uint32(head[4:])
	if fields > bytesMax || body > bytesMax {
		return message{}, errLarge
	}
	start := headBytes + (int(fields)+7)/8*8
	b := make([]byte, start+int(body))
	copy(b, head)
	if _, err := io.ReadFull(in, b[headBytes:]); err != nil {
		return message{}, err
	}
	return decodeMessage(b, start, order)
}

func orderOf(head []byte) (binary.ByteOrder, error) {
	switch {
	case head[3] != 1:
		return nil, errForm
	case head[0] == 'l':
		return binary.LittleEndian, nil
	case head[0] == 'B':
		return binary.BigEndian, nil
	}
	return nil, errForm
}

// decodeMessage reads a whole message whose body begins at start.
func decodeMessage(b []byte, start int, order binary.ByteOrder) (message, error) {
	m := message{kind: b[1]}
	d := decoder{b: b[:start], at: headBytes - 4, order: order}
	list, _ := d.array("(yv)", 0).([]any)
	if d.err != nil {
		return m, d.err
	}
	for _, f := range list {
		pair, ok := f.([]any)
		if !ok || len(pair) != 2 {
			return m, errForm
		}
		code, _ := pair[0].(byte)
		switch v := pair[1].(type) {
		case string:
			if int(code) < len(m.fields) {
				m.fields[code] = v
			}
		case uint32:
			if code == fieldReply {
				m.reply = v
			}
		}
	}
	d = decoder{b: b[start:], order: order}
	m.body = d.values(m.fields[fieldSignature], 0)
	return m, d.err
}

// encodeCall is a whole message that calls a method.
func encodeCall(serial uint32, to, path, iface, member string, args []any) ([]byte, error) {
	var body encoder
	sig := ""
	for _, a := range args {
		s, err := signatureOf(a)
		if err == nil {
			err = body.value(a)
		}
		if err != nil {
			return nil, err
		}
		sig += s
	}
	e := encoder{[]byte{'l', call, 0, 1}}
	e.u32(uint32(len(body.b)))
	e.u32(serial)
	err := e.array(8, func() error {
		for _, f := range []struct {
			code byte
			kind string
			text string
		}{{fieldPath, "o", path}, {fieldInterface, "s", iface}, {fieldMember, "s", member}, {fieldDestination, "s", to}, {fieldSignature, "g", sig}} {
			if f.text == "" {
				continue
			}
			e.align(8)
			e.b = append(e.b, f.code)
			e.signature(f.kind)
			if f.kind == "g" {
				e.signature(f.text)
			} else {
				e.text(f.text)
			}
		}
		return nil
	})
	e.align(8)
	return append(e.b, body.b...), err
}
