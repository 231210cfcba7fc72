package codec

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirstream/weir/pipeline"
)

// spMetric is a metric as a test writes it.
type spMetric struct {
	name     string
	alias    uint64 // 0: none
	typ      sparkplugType
	at       uint64
	null     bool
	history  bool
	field    protowire.Number
	number   uint64
	raw      []byte
	unwanted bool // metadata, properties and unknown fields as well
}

func long(name string, typ sparkplugType, v uint64) spMetric {
	return spMetric{name: name, typ: typ, field: valueLong, number: v}
}
func double(name string, v float64) spMetric {
	return spMetric{name: name, typ: typeDouble, field: valueDouble, number: math.Float64bits(v)}
}

func (m spMetric) encode() (b []byte) {
	varint := func(n protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	if m.name != "" {
		b = protowire.AppendString(protowire.AppendTag(b, metricName, protowire.BytesType), m.name)
	}
	if m.alias > 0 {
		varint(metricAlias, m.alias)
	}
	if m.at > 0 {
		varint(metricTimestamp, m.at)
	}
	if m.typ > 0 {
		varint(metricDatatype, uint64(m.typ))
	}
	if m.history {
		varint(metricHistorical, 1)
	}
	if m.null {
		varint(metricNull, 1)
	}
	if m.unwanted {
		b = protowire.AppendBytes(protowire.AppendTag(b, 8, protowire.BytesType), []byte{1, 2})
		b = protowire.AppendFixed32(protowire.AppendTag(b, 100, protowire.Fixed32Type), 7)
	}
	switch m.field {
	case 0:
	case valueInt, valueLong, valueBool:
		varint(m.field, m.number)
	case valueFloat:
		b = protowire.AppendFixed32(protowire.AppendTag(b, m.field, protowire.Fixed32Type), uint32(m.number))
	case valueDouble:
		b = protowire.AppendFixed64(protowire.AppendTag(b, m.field, protowire.Fixed64Type), m.number)
	default:
		b = protowire.AppendBytes(protowire.AppendTag(b, m.field, protowire.BytesType), m.raw)
	}
	return b
}

// spPayload makes a payload; seq -1: none.
func spPayload(at uint64, seq int, metrics ...spMetric) (b []byte) {
	if at > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, payloadTimestamp, protowire.VarintType), at)
	}
	for _, m := range metrics {
		b = protowire.AppendBytes(protowire.AppendTag(b, payloadMetric, protowire.BytesType), m.encode())
	}
	if seq >= 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, payloadSeq, protowire.VarintType), uint64(seq))
	}
	return b
}

// spNode feeds a decoder and keeps what it gave.
type spNode struct {
	t      testing.TB
	d      *Sparkplug
	pos    pipeline.Position
	wishes []Wish
}

func newSpNode(t testing.TB, perMetric bool) *spNode {
	return &spNode{t: t, d: NewSparkplug(nil, 0, perMetric, Default())}
}

// send gives the rows of a message, as JSON; of one that is refused the reason.
func (n *spNode) send(topic string, payload []byte) (rows []string) {
	n.pos++
	count, err := n.d.Open(n.pos, []byte("spBv1.0/"+topic), payload)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	if w := n.d.Wish(); w.Kind != WishNothing {
		n.wishes = append(n.wishes, w)
	}
	for i := range count {
		slots := make([]pipeline.Value, 1)
		if err := n.d.Record(i, slots); err != nil {
			rows = append(rows, "refused: "+err.Error())
			continue
		}
		if !json.Valid([]byte(slots[0].Str)) {
			n.t.Fatalf("not JSON: %s", slots[0].Str)
		}
		rows = append(rows, slots[0].Str)
	}
	return rows
}

func (n *spNode) want(topic string, payload []byte, rows ...string) {
	n.t.Helper()
	got := n.send(topic, payload)
	if len(got) != len(rows) {
		n.t.Fatalf("%s gives %q", topic, got)
	}
	for i := range rows {
		if !strings.Contains(got[i], rows[i]) {
			n.t.Errorf("%s\n got  %s\n want %s", topic, got[i], rows[i])
		}
	}
}

// asked are the holes for which a rebirth is wished, each once.
func (n *spNode) asked() (holes []pipeline.Position) {
	for _, w := range n.wishes {
		if w.Kind == WishRebirth && !slices.Contains(holes, w.Since) {
			holes = append(holes, w.Since)
		}
	}
	return holes
}

func TestSparkplugRowOfAMessage(t *testing.T) {
	n := newSpNode(t, false)
	n.want("G/NBIRTH/E", spPayload(1000, 0, long("bdSeq", typeUInt64, 7), double("temp", 20.5), spMetric{name: "n", alias: 3, typ: 3, field: valueInt, number: math.MaxUint32}),
		`{"sparkplug":{"group":"G","edge":"E","device":null,"type":"NBIRTH","seq":0,"timestamp":1000,"stale":false,"historical":false},"bdSeq":7,"temp":20.5,"n":-1}`)
	n.want("G/DBIRTH/E/D", spPayload(1001, 1, long("big", typeUInt64, math.MaxUint64)), `"device":"D","type":"DBIRTH","seq":1,"timestamp":1001,"stale":false,"historical":false},"big":18446744073709551615}`)
	n.want("G/NDATA/E", spPayload(1002, 2, spMetric{alias: 3, field: valueInt, number: 5}), `"stale":false,"historical":false},"n":5}`) // name and type from the birth
	n.want("G/DDATA/E/D", spPayload(1003, 3, spMetric{name: "big", null: true, history: true}), `"stale":false,"historical":true},"big":null}`)
	if len(n.asked()) > 0 {
		t.Errorf("asked at no hole: %v", n.wishes)
	}
}

func TestSparkplugRowPerMetric(t *testing.T) {
	n := newSpNode(t, true)
	n.want("G/NBIRTH/E", spPayload(1000, 255, double("a", 1)), `"stale":false,"historical":false},"name":"a","alias":null,"datatype":"Double","timestamp":1000,"historical":false,"value":1}`)
	old := double("a", 2)
	old.at, old.history, old.unwanted = 900, true, true
	n.want("G/NDATA/E", spPayload(1001, 0, old, double("a", 3), spMetric{alias: 9, field: valueLong, number: 1}),
		`"name":"a","alias":null,"datatype":"Double","timestamp":900,"historical":true,"value":2}`, `"timestamp":1001,"historical":false,"value":3}`,
		`"stale":true,"historical":true},"name":null,"alias":9,"datatype":null,"timestamp":1001,"historical":false,"value":null}`)
	n.want("G/NDEATH/E", spPayload(0, -1), `"type":"NDEATH","seq":null,"timestamp":null,"stale":true`)
}

func TestSparkplugSequence(t *testing.T) {
	type message struct {
		topic   string
		seq     int
		metrics []spMetric
		stale   bool
	}
	data := func(seq int, stale bool) message { return message{"G/NDATA/E", seq, []spMetric{double("v", 1)}, stale} }
	birth := func(seq int) message {
		return message{"G/NBIRTH/E", seq, []spMetric{long("bdSeq", typeUInt64, 1), double("v", 1)}, false}
	}
	death := func(bd uint64, stale bool) message {
		return message{"G/NDEATH/E", -1, []spMetric{long("bdSeq", typeUInt64, bd)}, stale}
	}
	for name, c := range map[string]struct {
		messages []message
		asked    []pipeline.Position
	}{
		"wrap":                        {messages: []message{birth(254), data(255, false), data(0, false), data(1, false)}},
		"hole":                        {[]message{birth(0), data(1, false), data(3, true), data(4, true), birth(0), data(1, false)}, []pipeline.Position{3}},
		"two holes before a birth":    {[]message{birth(0), data(2, true), data(9, true), birth(5), data(6, false), data(8, true)}, []pipeline.Position{2, 6}},
		"no birth":                    {[]message{data(7, true), data(8, true), birth(0), data(1, false)}, []pipeline.Position{1}},
		"repeated message":            {[]message{birth(0), data(1, false), data(1, true)}, []pipeline.Position{3}},
		"death, data without a birth": {[]message{birth(0), death(1, true), data(1, true), birth(0)}, []pipeline.Position{3}},
		"death of a session before":   {messages: []message{birth(0), death(0, false), data(1, false)}},
		"death of an unknown node":    {messages: []message{death(0, true), birth(0), data(1, false)}},
		"device without a birth":      {[]message{birth(0), {"G/DDATA/E/D", 1, nil, true}, birth(0), {"G/DBIRTH/E/D", 1, nil, false}, {"G/DDATA/E/D", 2, nil, false}}, []pipeline.Position{2}},
		"device after its death":      {[]message{birth(0), {"G/DBIRTH/E/D", 1, nil, false}, {"G/DDEATH/E/D", 2, nil, true}, data(3, false), {"G/DDATA/E/D", 4, nil, true}}, []pipeline.Position{5}},
		"a birth voids its devices":   {[]message{birth(0), {"G/DBIRTH/E/D", 1, nil, false}, birth(0), {"G/DDATA/E/D", 1, nil, true}}, []pipeline.Position{4}},
		"unknown alias":               {[]message{birth(0), {"G/NDATA/E", 1, []spMetric{{alias: 9, typ: typeDouble, field: valueDouble}}, true}, data(2, true)}, []pipeline.Position{2}},
		"alias of another device": {[]message{birth(0), {"G/DBIRTH/E/D", 1, []spMetric{{name: "x", alias: 9, typ: typeDouble, field: valueDouble}}, false},
			{"G/DBIRTH/E/F", 2, nil, false}, {"G/DDATA/E/F", 3, []spMetric{{alias: 9, field: valueDouble}}, true}}, []pipeline.Position{4}},
		"commands are no report": {messages: []message{birth(0), {"G/NCMD/E", -1, []spMetric{{name: RebirthMetric, typ: typeBoolean, field: valueBool, number: 1}}, false}, data(1, false)}},
		"nodes are apart":        {[]message{birth(0), {"G/NDATA/F", 1, nil, true}, data(1, false), {"H/NDATA/E", 1, nil, true}}, []pipeline.Position{2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newSpNode(t, false)
			for _, m := range c.messages {
				n.want(m.topic, spPayload(1000, m.seq, m.metrics...), fmt.Sprintf(`"stale":%v`, m.stale))
			}
			if got := n.asked(); !slices.Equal(got, c.asked) {
				t.Errorf("asked for holes at %v, want %v", got, c.asked)
			}
		})
	}
}

// TestSparkplugRefusedPayloadMovesNothing: neither the sequence nor a wish; and a row that is refused has moved both.
func TestSparkplugRefusedPayloadMovesNothing(t *testing.T) {
	n := newSpNode(t, false)
	n.send("G/NBIRTH/E", spPayload(1000, 0, double("v", 1)))
	whole := spPayload(1000, 1, double("v", 2))
	for cut := range len(whole) - 2 { // without the last field it is a payload again, of sequence number 0
		if got := n.send("G/NDATA/E", whole[:cut]); !strings.HasPrefix(got[0], "refused") && cut > 0 && cut < 3 {
			t.Errorf("cut at %d gives %q", cut, got)
		}
		n.send("G/NBIRTH/E", spPayload(1000, 0, double("v", 1)))
	}
	n.wishes = nil
	n.want("G/NDATA/E", []byte{8, 128, 128}, "refused: Sparkplug payload: ")
	n.want("G/NDATA/E", spPayload(1, 256), "refused: Sparkplug payload: sequence number 256, want 0 to 255")
	n.want("G/NDATA/E", protowire.AppendString(protowire.AppendTag(nil, payloadUUID, protowire.BytesType), compressedUUID), "refused: Sparkplug payload: compressed payloads are not read")
	n.want("G/NBIRTH/E", spPayload(1, 0, spMetric{alias: 5, typ: typeDouble}), "refused: a metric of a birth certificate has no name")
	n.want("STATE/host", []byte(`{"online":true}`), "refused: topic ")
	n.want("G/XDATA/E", whole, "refused: topic ")
	n.want("G/NDATA/E/D", whole, "refused: topic ")
	n.want("G/NDATA/E", spPayload(1000, 1, double("v", math.NaN())), "refused: field v: number is not finite")
	n.want("G/NDATA/E", spPayload(1000, 2, long("sparkplug.seq", typeInt64, 1)), "refused: field sparkplug.seq: ")
	n.want("G/NDATA/E", spPayload(1000, 3, double("v", 3)), `"stale":false,"historical":false},"v":3}`)
	if len(n.wishes) > 0 {
		t.Errorf("wishes %v", n.wishes)
	}
}

func TestSparkplugValues(t *testing.T) {
	for _, c := range []struct {
		m    spMetric
		want string
	}{
		{spMetric{typ: 1, field: valueInt, number: 0xff}, "-1"},
		{spMetric{typ: 1, field: valueInt, number: 0xffffff80}, "-128"},
		{spMetric{typ: 1, field: valueInt, number: 0xffffff7f}, "refused: field v: 4294967167 is out of range of Int8"},
		{spMetric{typ: 1, field: valueInt, number: 256}, "refused: field v: 256 is out of range of Int8"},
		{spMetric{typ: 2, field: valueLong, number: 1<<64 - 2}, "-2"},
		{spMetric{typ: 3, field: valueLong, number: 1 << 32}, "refused: field v: 4294967296 is out of range of Int32"},
		{spMetric{typ: 4, field: valueLong, number: 1 << 63}, "-9223372036854775808"},
		{spMetric{typ: 4, field: valueInt, number: 5}, "5"},
		{spMetric{typ: 5, field: valueInt, number: 255}, "255"},
		{spMetric{typ: 6, field: valueInt, number: 65536}, "refused: field v: 65536 is out of range of UInt16"},
		{spMetric{typ: 7, field: valueLong, number: 4294967295}, "4294967295"},
		{spMetric{typ: 8, field: valueLong, number: math.MaxUint64}, "18446744073709551615"},
		{spMetric{typ: 9, field: valueFloat, number: uint64(math.Float32bits(0.5))}, "0.5"},
		{spMetric{typ: 10, field: valueFloat, number: uint64(math.Float32bits(0.5))}, "0.5"},
		{spMetric{typ: 9, field: valueFloat, number: uint64(math.Float32bits(float32(math.Inf(1))))}, "refused: field v: number is not finite"},
		{spMetric{typ: 10, field: valueLong, number: 1}, "refused: field v: declared Double, found the value in field 11"},
		{spMetric{typ: 11, field: valueBool, number: 1}, "true"},
		{spMetric{typ: 12, field: valueString, raw: []byte("ä\n")}, `"ä\n"`},
		{spMetric{typ: 12, field: valueString, raw: []byte{0xff}}, "refused: field v: invalid UTF-8"},
		{spMetric{typ: 13, field: valueLong, number: 1767225600000}, "1767225600000"},
		{spMetric{typ: 17, field: valueBytes, raw: []byte{0, 1}}, `"AAE="`},
		{spMetric{typ: 16, field: 17, raw: []byte{8, 1}}, "null"},
		{spMetric{typ: 19, field: 18, raw: []byte{}}, "null"},
		{spMetric{typ: 10}, "null"},
		{spMetric{typ: 8, null: true}, "null"},
		{spMetric{typ: 23, field: valueBytes, raw: []byte{0xfe, 0xff, 1, 0}}, "[-2,1]"},
		{spMetric{typ: 29, field: valueBytes, raw: []byte{255, 255, 255, 255, 255, 255, 255, 255}}, "[18446744073709551615]"},
		{spMetric{typ: 24, field: valueBytes, raw: []byte{1, 2, 3}}, "refused: field v: Int32Array of 3 bytes, want a multiple of 4"},
		{spMetric{typ: 30, field: valueBytes, raw: []byte{0, 0, 0, 63}}, "[0.5]"},
		{spMetric{typ: 32, field: valueBytes, raw: []byte{10, 0, 0, 0, 0x80, 0x40}}, "[true,false,false,false,false,false,false,false,false,true]"},
		{spMetric{typ: 32, field: valueBytes, raw: []byte{255, 255, 255, 255}}, "refused: field v: BooleanArray of 4294967295 values has 0 bytes"},
		{spMetric{typ: 33, field: valueBytes, raw: []byte("a\x00\x00ö\x00")}, `["a","","ö"]`},
		{spMetric{typ: 34, field: valueBytes, raw: []byte{1, 0, 0, 0, 0, 0, 0, 0}}, "[1]"},
		{spMetric{typ: 99, field: valueLong, number: 1}, "null"},
	} {
		c.m.name = "v"
		slots := make([]pipeline.Value, 1)
		d := NewSparkplug([]Field{field(t, "v", 0, pipeline.Null)}, -1, false, Default())
		got := ""
		if err := d.Decode(spPayload(1, 0, c.m), slots); err != nil {
			got = "refused: " + err.Error()
		} else {
			b, err := AppendValue(nil, slots[0])
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != c.want {
			t.Errorf("%+v\n got  %s\n want %s", c.m, got, c.want)
		}
	}
}

func TestSparkplugBirthsAreBounded(t *testing.T) {
	n := newSpNode(t, false)
	full := make([]spMetric, 100_000)
	for i := range full {
		full[i] = spMetric{name: fmt.Sprint("m", i), typ: typeDouble}
	}
	n.send("G/NBIRTH/A", spPayload(1, 0, full...))
	n.send("G/NBIRTH/B", spPayload(1, 0, full...))
	n.want("G/NBIRTH/C", spPayload(1, 0, full...), "refused: the birth certificates hold more than 250000 metrics")
	n.want("G/NBIRTH/B", spPayload(1, 0, full...), `"type":"NBIRTH"`) // in place of the one before
	n.send("G/NDEATH/A", spPayload(1, -1))
	n.want("G/NBIRTH/C", spPayload(1, 0, full...), `"type":"NBIRTH"`)
}

func TestRebirthCommandIsReadBack(t *testing.T) {
	n := newSpNode(t, false)
	n.want("G/NCMD/E", AppendRebirth(nil, 1767225600000), `"timestamp":1767225600000,"stale":false,"historical":false},"Node Control/Rebirth":true}`)
}

func TestSparkplugDataAllocatesLittle(t *testing.T) {
	d := NewSparkplug([]Field{field(t, "temp", 0, pipeline.Null)}, -1, false, Default())
	open := func(topic string, p []byte) {
		if _, err := d.Open(1, []byte(topic), p); err != nil {
			t.Fatal(err)
		}
	}
	slots := make([]pipeline.Value, 1)
	payload, topic := spPayload(1000, 1, double("temp", 20.5)), []byte("spBv1.0/G/NDATA/E")
	open("spBv1.0/G/NBIRTH/E", spPayload(1000, 0, double("temp", 20.5)))
	got := testing.AllocsPerRun(100, func() {
		if _, err := d.Open(1, topic, payload); err != nil {
			t.Fatal(err)
		}
		if err := d.Record(0, slots); err != nil {
			t.Fatal(err)
		}
	})
	if got > 6 {
		t.Errorf("%v allocations for a message", got)
	}
}

func BenchmarkSparkplug(b *testing.B) {
	d := NewSparkplug([]Field{field(b, "m3", 0, pipeline.Float)}, -1, false, Default())
	var metrics, data []spMetric
	for i := range 10 {
		metrics = append(metrics, spMetric{name: fmt.Sprint("m", i), alias: uint64(i + 1), typ: typeDouble, field: valueDouble, number: math.Float64bits(20.5)})
		data = append(data, spMetric{alias: uint64(i + 1), field: valueDouble, number: math.Float64bits(20.5)})
	}
	topic, slots := []byte("spBv1.0/G/NDATA/E"), make([]pipeline.Value, 1)
	if _, err := d.Open(1, []byte("spBv1.0/G/NBIRTH/E"), spPayload(1000, 255, metrics...)); err != nil {
		b.Fatal(err)
	}
	var payloads [256][]byte
	for seq := range payloads {
		payloads[seq] = spPayload(1000, seq, data...)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := d.Open(1, topic, payloads[i&255]); err != nil {
			b.Fatal(err)
		}
		if err := d.Record(0, slots); err != nil {
			b.Fatal(err)
		}
	}
	if d.stale {
		b.Fatal("the sequence was not followed")
	}
}
