package codec

import (
	"encoding/json"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// benchPayload is what a gateway sees most: 120 bytes, 4 of 6 members wanted.
const benchPayload = `{"ts":1767225600123,"device":"press-017","temp":21.53,"hum":40.2,"status":"running","seq":120045,"site":"plant-north-2"}`

func benchFields(t testing.TB) []Field {
	return []Field{field(t, "ts", 0, pipeline.Int), field(t, "device", 1, pipeline.String), field(t, "temp", 2, pipeline.Float), field(t, "hum", 3, pipeline.Null)}
}

func BenchmarkJSON(b *testing.B) {
	payload := []byte(benchPayload)
	d := NewJSON(benchFields(b), -1, Default())
	slots := make([]pipeline.Value, 4)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if err := d.Decode(payload, slots); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSON is the standard library on the same payload, for comparison.
func BenchmarkEncodingJSON(b *testing.B) {
	payload := []byte(benchPayload)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		var v struct {
			TS     int64   `json:"ts"`
			Device string  `json:"device"`
			Temp   float64 `json:"temp"`
			Hum    float64 `json:"hum"`
		}
		if err := json.Unmarshal(payload, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCBOR(b *testing.B) {
	payload := cborOf(b, benchPayload)
	d := NewCBOR(benchFields(b), -1, Default())
	slots := make([]pipeline.Value, 4)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if err := d.Decode(payload, slots); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	slots := make([]pipeline.Value, 4)
	if err := NewJSON(benchFields(b), -1, Default()).Decode([]byte(benchPayload), slots); err != nil {
		b.Fatal(err)
	}
	cols := []Column{{"ts", 0}, {"device", 1}, {"temp", 2}, {"hum", 3}}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, err = AppendJSON(out[:0], cols, -1, slots); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDecodeAllocatesNothing keeps the promise of the benchmarks.
func TestDecodeAllocatesNothing(t *testing.T) {
	slots := make([]pipeline.Value, 5)
	for name, c := range map[string]struct {
		d       Decoder
		payload []byte
	}{
		"json":       {NewJSON(benchFields(t), -1, Default()), []byte(benchPayload)},
		"json whole": {NewJSON(benchFields(t), 4, Default()), []byte(benchPayload)},
		"cbor":       {NewCBOR(benchFields(t), -1, Default()), cborOf(t, benchPayload)},
		"text":       {NewText([]Field{field(t, "value", 0, pipeline.Float)}, -1, Default()), []byte(" 29.700001\n")},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := c.d.Decode(c.payload, slots); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
