// Package replay runs a pipeline over recorded deliveries with virtual time: the engine of `weir run` with journal,
// clock and uplink replaced. It keeps nothing and writes nothing but its output.
package replay

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// Delivery is one line of a recording: what a broker handed over, and when.
type Delivery struct {
	N       int64
	AtMs    int64 // arrival
	Topic   string
	QoS     uint8
	Retain  bool
	Dup     bool
	Payload string
}

// lineBytesMax bounds one line: a payload of 5 MiB in base64 with room to spare.
const lineBytesMax = 16 << 20

// The slots of a line.
const (
	slotN = iota
	slotAt
	slotTopic
	slotQoS
	slotRetain
	slotDup
	slotPayload
	slotBase64
	slotOp
	slotCount
)

// Deliveries reads a recording line by line. Lines with an "op" (control steps of the field cases) are skipped.
type Deliveries struct {
	lines   *bufio.Reader
	line    int
	decoder codec.Decoder
	slots   [slotCount]pipeline.Value
}

// NewDeliveries reads from r.
func NewDeliveries(r io.Reader) *Deliveries {
	var fields []codec.Field
	for slot, f := range []struct {
		name string
		kind pipeline.Kind
	}{
		slotN: {"n", pipeline.Int}, slotAt: {"at_ms", pipeline.Int}, slotTopic: {"topic", pipeline.String},
		slotQoS: {"qos", pipeline.Int}, slotRetain: {"retain", pipeline.Bool}, slotDup: {"dup", pipeline.Bool},
		slotPayload: {"payload", pipeline.String}, slotBase64: {"payload_b64", pipeline.String}, slotOp: {"op", pipeline.String},
	} {
		fields = append(fields, codec.Field{Path: pipeline.Path{{Name: f.name}}, Slot: slot, Kind: f.kind})
	}
	return &Deliveries{lines: bufio.NewReaderSize(r, 256<<10), decoder: codec.NewJSON(fields, -1, codec.Limits{})}
}

// Next gives the next delivery, io.EOF at the end. An ill-formed line is an error that names it.
func (d *Deliveries) Next() (Delivery, error) {
	for {
		line, err := d.read()
		if err != nil {
			return Delivery{}, err
		}
		d.line++
		if len(line) == 0 {
			continue
		}
		clear(d.slots[:])
		if err := d.decoder.Decode(line, d.slots[:]); err != nil {
			return Delivery{}, fmt.Errorf("line %d: %w", d.line, err)
		}
		if !d.slots[slotOp].IsNull() {
			continue
		}
		return d.delivery()
	}
}

func (d *Deliveries) delivery() (Delivery, error) {
	s := &d.slots
	if s[slotTopic].IsNull() || s[slotAt].IsNull() {
		return Delivery{}, fmt.Errorf("line %d: a delivery needs \"topic\" and \"at_ms\"", d.line)
	}
	if s[slotPayload].IsNull() && s[slotBase64].IsNull() { // an empty payload is one; a missing one is a recording of another kind
		return Delivery{}, fmt.Errorf("line %d: a delivery needs \"payload\" or \"payload_b64\"", d.line)
	}
	out := Delivery{
		N: s[slotN].Int(), AtMs: s[slotAt].Int(), Topic: s[slotTopic].Str, QoS: uint8(s[slotQoS].Int()),
		Retain: s[slotRetain].Bool(), Dup: s[slotDup].Bool(), Payload: s[slotPayload].Str,
	}
	if !s[slotBase64].IsNull() {
		b, err := base64.StdEncoding.DecodeString(s[slotBase64].Str)
		if err != nil {
			return Delivery{}, fmt.Errorf("line %d: payload_b64: %w", d.line, err)
		}
		out.Payload = string(b)
	}
	return out, nil
}

// read gives one line in memory of its own: decoded text refers to it.
func (d *Deliveries) read() ([]byte, error) {
	var line []byte
	for {
		part, err := d.lines.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > lineBytesMax {
			return nil, fmt.Errorf("line %d: longer than %d bytes", d.line+1, lineBytesMax)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(line) > 0, err == nil:
			for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
				line = line[:len(line)-1]
			}
			return line, nil
		}
		return nil, err
	}
}
