package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

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

// spDrawn draws messages of a few nodes and devices, many of them with holes, unknown aliases and deaths.
func spDrawn(t *rapid.T) (topics []string, payloads [][]byte) {
	next := map[string]int{}
	for range rapid.IntRange(1, 60).Draw(t, "messages") {
		edge := rapid.SampledFrom([]string{"E", "F"}).Draw(t, "edge")
		kind := rapid.SampledFrom([]string{"NBIRTH", "NDATA", "NDATA", "NDATA", "DBIRTH", "DDATA", "DDATA", "DDEATH", "NDEATH", "NCMD", "DCMD"}).Draw(t, "kind")
		topic := "G/" + kind + "/" + edge
		if kind[0] == 'D' {
			topic += "/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "device")
		}
		if kind == "NBIRTH" {
			next[edge] = 0
		}
		seq := next[edge] & 255
		next[edge]++
		if rapid.IntRange(0, 9).Draw(t, "hole") == 0 {
			next[edge]++
		}
		var metrics []spMetric
		for range rapid.IntRange(0, 4).Draw(t, "metrics") {
			i := rapid.IntRange(1, 4).Draw(t, "metric")
			m := spMetric{name: fmt.Sprint("m", i), alias: uint64(i), typ: typeInt64, field: valueLong, number: uint64(rapid.IntRange(0, 9).Draw(t, "value"))}
			if !strings.Contains(kind, "BIRTH") && rapid.Bool().Draw(t, "by alias") {
				m.name, m.typ = "", 0
			}
			metrics = append(metrics, m)
		}
		if kind[1:] == "DEATH" || kind == "NBIRTH" {
			metrics = append(metrics, long("bdSeq", typeUInt64, uint64(rapid.IntRange(0, 1).Draw(t, "bdSeq"))))
		}
		p := spPayload(uint64(1000+len(topics)), seq, metrics...)
		if rapid.IntRange(0, 15).Draw(t, "cut") == 0 {
			p = p[:rapid.IntRange(0, len(p)).Draw(t, "at")]
		}
		topics, payloads = append(topics, topic), append(payloads, p)
	}
	return topics, payloads
}

// saveInto applies what changed to a table.
func saveInto(t testing.TB, d *Sparkplug, table map[string]string) {
	t.Helper()
	if err := d.Save(func(key, val []byte) error {
		if val == nil {
			delete(table, string(key))
		} else {
			table[string(key)] = string(val)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// crashes feeds the messages to a decoder that is saved and loaded anew now and then; keep decides which entries survive.
func crashes(t testing.TB, perMetric bool, topics []string, payloads [][]byte, every int, keep func(key string) bool) (rows []string, wishes []Wish) {
	n, table := newSpNode(t, perMetric), map[string]string{}
	for i := range topics {
		if every > 0 && i%every == every-1 {
			saveInto(t, n.d, table)
			n.d = newSpNode(t, perMetric).d
			for key, val := range table {
				if keep(key) {
					if err := n.d.Load([]byte(key), []byte(val)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		rows = append(rows, n.send(topics[i], payloads[i])...)
	}
	return rows, n.wishes
}

func TestSparkplugGoesOnAfterARestore(t *testing.T) {
	all := func(string) bool { return true }
	rapid.Check(t, func(rt *rapid.T) {
		topics, payloads := spDrawn(rt)
		perMetric := rapid.Bool().Draw(rt, "per metric")
		want, wished := crashes(t, perMetric, topics, payloads, 0, all)
		got, again := crashes(t, perMetric, topics, payloads, rapid.IntRange(1, 9).Draw(rt, "every"), all)
		if !slices.Equal(want, got) || !slices.Equal(wished, again) {
			rt.Fatalf("restored:\n%s\nundisturbed:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestSparkplugPlantedLossOfStateIsFound: a kind of entry that is not restored shows.
func TestSparkplugPlantedLossOfStateIsFound(t *testing.T) {
	type drawn struct {
		topics   []string
		payloads [][]byte
	}
	draw := rapid.Custom(func(t *rapid.T) drawn { a, b := spDrawn(t); return drawn{a, b} })
	for name, kind := range map[string]byte{"sequence": nodeEntry, "aliases": birthEntry} {
		found := false
		for seed := 0; seed < 200 && !found; seed++ {
			c := draw.Example(seed)
			want, _ := crashes(t, false, c.topics, c.payloads, 0, nil)
			got, _ := crashes(t, false, c.topics, c.payloads, 3, func(key string) bool { return key[0] != kind })
			found = !slices.Equal(want, got)
		}
		if !found {
			t.Errorf("%s: the loss goes unnoticed", name)
		}
	}
}

// FuzzSparkplug: no payload makes the decoder panic; what it takes is JSON, and its state survives a restart.
func FuzzSparkplug(f *testing.F) {
	birth := spPayload(1000, 0, long("bdSeq", typeUInt64, 7), double("temp", 20.5), spMetric{name: "n", alias: 3, typ: 3, field: valueInt, number: 9})
	f.Add("G/NBIRTH/E", birth, "G/NDATA/E", spPayload(1, 1, spMetric{alias: 3, field: valueInt, number: 5}))
	f.Add("G/DBIRTH/E/D", spPayload(1, 1, spMetric{name: "a", typ: 33, field: valueBytes, raw: []byte("a\x00")}), "G/DDATA/E/D", []byte{8, 128, 128})
	f.Add("STATE/x", []byte("{}"), "G/NDEATH/E", spPayload(0, -1))
	f.Fuzz(func(t *testing.T, topic string, first []byte, then string, second []byte) {
		n, table := newSpNode(t, len(first)%2 == 0), map[string]string{}
		n.send(topic, first)
		saveInto(t, n.d, table)
		restored := newSpNode(t, len(first)%2 == 0)
		restored.pos = n.pos
		for key, val := range table {
			if err := restored.d.Load([]byte(key), []byte(val)); err != nil {
				t.Fatal(err)
			}
		}
		if want, got := n.send(then, second), restored.send(then, second); !slices.Equal(want, got) {
			t.Fatalf("%q, restored %q", want, got)
		}
	})
}

// FuzzSparkplugState: an entry is refused or survives a round.
func FuzzSparkplugState(f *testing.F) {
	n, table := newSpNode(f, false), map[string]string{}
	n.send("G/NBIRTH/E", spPayload(1000, 0, long("bdSeq", typeUInt64, 7), spMetric{name: "n", alias: 3, typ: 3, field: valueInt, number: 9}))
	saveInto(f, n.d, table)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		f.Add([]byte(key), []byte(table[key]))
	}
	f.Fuzz(func(t *testing.T, key, val []byte) {
		d := NewSparkplug(nil, 0, false, Default())
		if d.Load(key, val) != nil || len(key) == 0 || key[0] != birthEntry {
			return
		}
		for _, n := range d.nodes {
			for device, b := range n.tables {
				again := NewSparkplug(nil, 0, false, Default())
				if err := again.Load([]byte("b"+n.key+"\x00"+device), b.encode()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestSparkplugFlippedBits: no flip and no cut makes the decoder panic.
func TestSparkplugFlippedBits(t *testing.T) {
	whole := spPayload(1000, 1, long("bdSeq", typeUInt64, 7), double("temp", 20.5), spMetric{name: "a", typ: 33, field: valueBytes, raw: []byte("a\x00b\x00")},
		spMetric{name: "b", typ: 32, field: valueBytes, raw: []byte{3, 0, 0, 0, 0xa0}, unwanted: true})
	for _, topic := range []string{"G/NBIRTH/E", "G/NDATA/E"} {
		for i := range whole {
			for bit := range 8 {
				flipped := slices.Clone(whole)
				flipped[i] ^= 1 << bit
				newSpNode(t, bit%2 == 0).send(topic, flipped)
			}
			newSpNode(t, false).send(topic, whole[:i])
		}
	}
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
