package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

type delivery struct {
	N       int    `json:"n"`
	Topic   string `json:"topic"`
	Payload string `json:"payload"`
	Base64  string `json:"payload_b64"`
}

func (d delivery) bytes(t *testing.T) []byte {
	t.Helper()
	if d.Base64 == "" {
		return []byte(d.Payload)
	}
	b, err := base64.StdEncoding.DecodeString(d.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readCase(t *testing.T, number string, expect any) []delivery {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases", number+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []delivery
	for line := range bytes.Lines(b) {
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	if b, err = os.ReadFile(filepath.Join("testdata", "cases", number+".expect.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, expect); err != nil {
		t.Fatal(err)
	}
	return all
}

// text is a value as the sink would write it.
func text(t *testing.T, v pipeline.Value) string {
	t.Helper()
	b, err := AppendValue(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCase01_IntegersStayExact(t *testing.T) {
	var want struct {
		Text []string `json:"pass_through_id_text"`
	}
	in := readCase(t, "01", &want)
	want.Text = append(want.Text, "18446744073709551615", "1000")
	slots := make([]pipeline.Value, 2)
	d := NewJSON([]Field{field(t, "id", 0, pipeline.Int)}, 1, Default())
	var got []string
	for _, m := range in {
		if err := d.Decode(m.bytes(t), slots); err != nil {
			t.Fatalf("line %d: %v", m.N, err)
		}
		got = append(got, text(t, slots[0]))
		whole, err := AppendJSON(nil, nil, 1, slots)
		if err != nil || string(whole) != m.Payload {
			t.Errorf("line %d: passed through as %s, %v", m.N, whole, err)
		}
	}
	if d := cmp.Diff(want.Text, got); d != "" {
		t.Error(d)
	}
}

func TestCase02_TimeUnits(t *testing.T) {
	var want struct {
		Declared map[string]string `json:"declared"`
		Times    []int64           `json:"event_time_ms"`
		NS       string            `json:"ns value passed through unchanged"`
	}
	in := readCase(t, "02", &want)
	d := NewJSON([]Field{field(t, "ts", 0, pipeline.Null)}, 1, Default())
	slots := make([]pipeline.Value, 2)
	for i, m := range in {
		if err := d.Decode(m.bytes(t), slots); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(want.Declared[m.Topic], " ")
		unit, err := ParseUnit(name)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := ParseTime(slots[0], unit)
		if err != nil {
			t.Fatalf("line %d: %v", m.N, err)
		}
		sane := ms > 946684800000 && ms < 4102444800000
		if i < len(want.Times) && ms != want.Times[i] {
			t.Errorf("line %d: %d ms, want %d", m.N, ms, want.Times[i])
		}
		if i >= len(want.Times) && sane {
			t.Errorf("line %d: %d ms looks right, and its unit is wrong", m.N, ms)
		}
		if m.Topic == "u/ns" && text(t, slots[0]) != want.NS {
			t.Errorf("line %d: ns value %s, want %s", m.N, text(t, slots[0]), want.NS)
		}
	}
}

// TestCase05_NaN: the documented choice is that a message whose declared field has another type is refused as a whole.
func TestCase05_NaN(t *testing.T) {
	var want struct {
		Dead []int `json:"dead_letter_lines"`
	}
	in := readCase(t, "05", &want)
	for _, c := range []struct {
		kind pipeline.Kind
		dead []int
		sumA float64
		sumB float64
		b    int
	}{
		{pipeline.Null, want.Dead, 44, 228, 5},
		{pipeline.Float, slices.Sorted(slices.Values(append([]int{5}, want.Dead...))), 44, 183, 4},
	} {
		d := NewJSON([]Field{field(t, "a", 0, c.kind), field(t, "b", 1, c.kind)}, -1, Default())
		slots := make([]pipeline.Value, 2)
		var dead []int
		var a, b float64
		n := 0
		for _, m := range in {
			if err := d.Decode(m.bytes(t), slots); err != nil {
				dead = append(dead, m.N)
				continue
			}
			f, _ := slots[0].AsFloat()
			a += f
			if f, ok := slots[1].AsFloat(); ok {
				b += f
				n++
			}
		}
		if !slices.Equal(dead, c.dead) || a != c.sumA || b != c.sumB || n != c.b {
			t.Errorf("declared %s: dead %v, sum of a %v, of b %v (%d), want %v", c.kind, dead, a, b, n, c)
		}
	}
}

// TestCase07_EmptyPayload: the source counts empty payloads as tombstones and never decodes them; were one decoded, no
// decoder would make a 0 of it.
func TestCase07_EmptyPayload(t *testing.T) {
	var want struct {
		Values     []int64 `json:"values"`
		Tombstones int     `json:"tombstones"`
	}
	in := readCase(t, "07", &want)
	d := NewJSON([]Field{field(t, "v", 0, pipeline.Int)}, -1, Default())
	slots := make([]pipeline.Value, 1)
	var values []int64
	empty := 0
	for _, m := range in {
		err := d.Decode(m.bytes(t), slots)
		if m.Payload == "" {
			empty++
			if err == nil {
				t.Errorf("line %d: an empty payload was decoded", m.N)
			}
			continue
		}
		values = append(values, slots[0].Int())
	}
	if empty != want.Tombstones || !slices.Equal(values, want.Values) {
		t.Errorf("%d empty, values %v, want %+v", empty, values, want)
	}
}

// TestCase29_Arrays covers the decoding of it: elements by index, the depth limit, the duplicate key (refused when wanted).
func TestCase29_Arrays(t *testing.T) {
	in := readCase(t, "29", &map[string]any{})
	d := NewJSON([]Field{field(t, "values", 0, pipeline.Null), field(t, "values[3].id", 1, pipeline.Null), field(t, "timestamp", 2, pipeline.Int),
		field(t, "v", 3, pipeline.Null)}, -1, Default())
	slots := make([]pipeline.Value, 4)
	for _, m := range in {
		err := d.Decode(m.bytes(t), slots)
		switch {
		case m.N <= 4 && err != nil:
			t.Errorf("line %d: %v", m.N, err)
		case m.N == 4 && slots[1].Str != "P.4":
			t.Errorf("line 4: element 3 is %v", slots[1])
		case m.N == 1 && slots[0].Str != "[]", (m.N == 2 || m.N == 3) && !slots[0].IsNull():
			t.Errorf("line %d: values are %v", m.N, slots[0])
		case m.N == 5 && (err == nil || !strings.Contains(err.Error(), "deeper than 64")):
			t.Errorf("line 5: %v", err)
		}
	}
	duplicate := in[len(in)-1]
	inner := NewJSON([]Field{field(t, "values[0].v", 0, pipeline.Null)}, -1, Default())
	if err := inner.Decode(duplicate.bytes(t), slots); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("line 6: %v", err)
	}
}

func TestCase30_DecoderPerTopic(t *testing.T) {
	var want struct {
		T []float64 `json:"json t"`
	}
	in := readCase(t, "30", &want)
	decoders := map[string]Decoder{
		"ems/boiler": NewJSON([]Field{field(t, "t", 0, pipeline.Float)}, -1, Default()),
		"ems/status": NewText([]Field{field(t, "value", 0, pipeline.String)}, -1, Default()),
		"ems/raw":    NewText([]Field{field(t, "value", 0, pipeline.Float)}, -1, Default()),
		"ems/bin":    NewBytes([]Field{field(t, "value", 0, pipeline.Null)}, -1, Default()),
	}
	got := map[string][]any{}
	for _, m := range in {
		slots := make([]pipeline.Value, 1)
		err := decoders[m.Topic].Decode(m.bytes(t), slots)
		if m.N == 6 {
			if err == nil || !strings.Contains(err.Error(), "behind the end") {
				t.Errorf("two documents: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("line %d: %v", m.N, err)
		}
		switch v := slots[0]; v.Kind {
		case pipeline.Float:
			got[m.Topic] = append(got[m.Topic], v.Float())
		case pipeline.Bytes:
			got[m.Topic] = append(got[m.Topic], len(v.Str), v.Str == string(m.bytes(t)))
		default:
			got[m.Topic] = append(got[m.Topic], v.Str)
		}
	}
	if d := cmp.Diff(map[string][]any{
		"ems/boiler": {want.T[0], 56.0, want.T[1]}, // the documented choice: a byte order mark is skipped
		"ems/status": {"online", "offline"},
		"ems/raw":    {29.700001, 57.0},
		"ems/bin":    {256, true},
	}, got); d != "" {
		t.Error(d)
	}
}
