package codec

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The payload of Sparkplug B (Eclipse Sparkplug 3.0, chapter 6: sparkplug_b.proto), read without generated code: two messages, twenty fields.

// sparkplugPayload is a decoded payload. Texts alias the bytes that it was read from.
type sparkplugPayload struct {
	timestamp, seq       uint64
	hasTimestamp, hasSeq bool
	metrics              []sparkplugMetric
}

type sparkplugMetric struct {
	name                            string
	alias, timestamp                uint64
	datatype                        uint32
	hasName, hasAlias, hasTimestamp bool
	historical, null                bool
	field                           protowire.Number // that of the value, 0: there is none
	number                          uint64           // of ints, the bits of floats, 0 or 1
	raw                             []byte           // of text, bytes and messages
}

// Field numbers of Payload and Metric.
const (
	payloadTimestamp protowire.Number = 1
	payloadMetric    protowire.Number = 2
	payloadSeq       protowire.Number = 3
	payloadUUID      protowire.Number = 4

	metricName       protowire.Number = 1
	metricAlias      protowire.Number = 2
	metricTimestamp  protowire.Number = 3
	metricDatatype   protowire.Number = 4
	metricHistorical protowire.Number = 5
	metricNull       protowire.Number = 7

	valueInt    protowire.Number = 10
	valueLong   protowire.Number = 11
	valueFloat  protowire.Number = 12
	valueDouble protowire.Number = 13
	valueBool   protowire.Number = 14
	valueString protowire.Number = 15
	valueBytes  protowire.Number = 16
	valueLast   protowire.Number = 19 // 17 to 19: data set, template, extension
)

// compressedUUID marks a payload whose body is another one, compressed.
const compressedUUID = "SPBV1.0_COMPRESSED"

// seqMax is the largest sequence number; 0 follows it.
const seqMax = 255

// wireField is one field as it stands on the wire.
type wireField struct {
	number protowire.Number
	typ    protowire.Type
	num    uint64
	raw    []byte
}

// nextField cuts a field off.
func nextField(b []byte) (f wireField, rest []byte, err error) {
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	f.number, f.typ, b = number, typ, b[n:]
	switch typ {
	case protowire.VarintType:
		f.num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.num, n = protowire.ConsumeFixed64(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.num = uint64(v)
	case protowire.BytesType:
		f.raw, n = protowire.ConsumeBytes(b)
	default: // groups
		n = protowire.ConsumeFieldValue(number, typ, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// is tells whether the field has the wire type that its number demands.
func (f *wireField) is(want protowire.Type) error {
	if f.typ != want {
		return fmt.Errorf("field %d has wire type %d, want %d", f.number, f.typ, want)
	}
	return nil
}

// read fills p from a payload; the metrics' memory is used again.
func (p *sparkplugPayload) read(b []byte, elements int) error {
	*p = sparkplugPayload{metrics: p.metrics[:0]}
	refuse := func(rest []byte, err error) error {
		return &Error{Reason: "Sparkplug payload: " + err.Error(), Offset: len(b) - len(rest)}
	}
	for rest := b; len(rest) > 0; {
		f, after, err := nextField(rest)
		if err != nil {
			return refuse(rest, err)
		}
		switch f.number {
		case payloadTimestamp:
			err = f.is(protowire.VarintType)
			p.timestamp, p.hasTimestamp = f.num, true
		case payloadSeq:
			if err = f.is(protowire.VarintType); err == nil && f.num > seqMax {
				err = fmt.Errorf("sequence number %d, want 0 to %d", f.num, seqMax)
			}
			p.seq, p.hasSeq = f.num, true
		case payloadUUID:
			if err = f.is(protowire.BytesType); err == nil && string(f.raw) == compressedUUID {
				err = fmt.Errorf("compressed payloads are not read")
			}
		case payloadMetric:
			if err = f.is(protowire.BytesType); err == nil && len(p.metrics) == elements {
				err = fmt.Errorf("more than %d metrics", elements)
			}
			if err == nil {
				p.metrics = append(p.metrics, sparkplugMetric{})
				err = p.metrics[len(p.metrics)-1].read(f.raw)
			}
		}
		if err != nil {
			return refuse(rest, err)
		}
		rest = after
	}
	return nil
}

func (m *sparkplugMetric) read(b []byte) error {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("metric: %w", err)
		}
		if err := m.set(&f); err != nil {
			return fmt.Errorf("metric %q: %w", m.name, err)
		}
		b = rest
	}
	return nil
}

func (m *sparkplugMetric) set(f *wireField) error {
	want := protowire.VarintType
	switch f.number {
	case metricName, valueString, valueBytes:
		want = protowire.BytesType
	case valueFloat:
		want = protowire.Fixed32Type
	case valueDouble:
		want = protowire.Fixed64Type
	default:
		if f.number > valueLast || f.number == 6 || f.number == 8 || f.number == 9 {
			return nil // is_transient, metadata, properties, and what later versions add
		}
		if f.number > valueBytes {
			want = protowire.BytesType
		}
	}
	if err := f.is(want); err != nil {
		return err
	}
	switch f.number {
	case metricName:
		if !utf8.Valid(f.raw) {
			return fmt.Errorf("the name is not valid UTF-8")
		}
		m.name, m.hasName = view(f.raw), true
	case metricAlias:
		m.alias, m.hasAlias = f.num, true
	case metricTimestamp:
		m.timestamp, m.hasTimestamp = f.num, true
	case metricDatatype:
		m.datatype = uint32(f.num)
	case metricHistorical:
		m.historical = f.num != 0
	case metricNull:
		m.null = f.num != 0
	default:
		m.field, m.number, m.raw = f.number, f.num, f.raw // of several the last counts, as in any oneof
	}
	return nil
}

// AppendRebirth appends the payload of a node command that asks for the birth certificates. at is Unix ms.
func AppendRebirth(dst []byte, at int64) []byte {
	var metric []byte
	metric = protowire.AppendTag(metric, metricName, protowire.BytesType)
	metric = protowire.AppendString(metric, RebirthMetric)
	metric = protowire.AppendTag(metric, metricTimestamp, protowire.VarintType)
	metric = protowire.AppendVarint(metric, uint64(at))
	metric = protowire.AppendTag(metric, metricDatatype, protowire.VarintType)
	metric = protowire.AppendVarint(metric, uint64(typeBoolean))
	metric = protowire.AppendTag(metric, valueBool, protowire.VarintType)
	metric = protowire.AppendVarint(metric, 1)
	dst = protowire.AppendTag(dst, payloadTimestamp, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(at))
	dst = protowire.AppendTag(dst, payloadMetric, protowire.BytesType)
	return protowire.AppendBytes(dst, metric)
}

// RebirthMetric is the metric of a node command that asks for the birth certificates.
const RebirthMetric = "Node Control/Rebirth"
