package codec

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		payload string
		kind    pipeline.Kind
		want    pipeline.Value
		whole   string
		reason  string
	}{
		{" on\n", 0, pipeline.StringValue(" on\n"), `" on\n"`, ""},
		{" on", pipeline.String, pipeline.StringValue(" on"), `" on"`, ""},
		{"\t57.000000\n", pipeline.Float, pipeline.FloatValue(57), "57", ""},
		{"57.000000", pipeline.Int, pipeline.IntValue(57), "57", ""},
		{"9007199254740993", pipeline.Int, pipeline.IntValue(9007199254740993), "9007199254740993", ""},
		{"true", pipeline.Bool, pipeline.BoolValue(true), "true", ""},
		{"\x00\x01", pipeline.Bytes, pipeline.BytesValue("\x00\x01"), `"AAE="`, ""},
		{"nan", pipeline.Float, pipeline.Value{}, "", "want a number"},
		{"+5", pipeline.Int, pipeline.Value{}, "", "want a number"},
		{"5 5", pipeline.Int, pipeline.Value{}, "", "want a number"},
		{" ", pipeline.Int, pipeline.Value{}, "", "want a number"},
		{"1e999", pipeline.Float, pipeline.Value{}, "", "float64"},
		{"yes", pipeline.Bool, pipeline.Value{}, "", "declared bool"},
		{"{}", pipeline.JSON, pipeline.Value{}, "", "declared json"},
		{"a\xff", 0, pipeline.Value{}, "", "UTF-8 (byte 1)"},
	} {
		slots := make([]pipeline.Value, 3)
		d := NewText([]Field{field(t, "value", 0, c.kind), field(t, "other", 1, 0)}, 2, Default())
		err := d.Decode([]byte(c.payload), slots)
		if c.reason != "" {
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%q: %v, want %q", c.payload, err, c.reason)
			}
			continue
		}
		if err != nil || slots[0] != c.want || !slots[1].IsNull() || slots[2].Str != c.whole {
			t.Errorf("%q as %s: %v, %v", c.payload, c.kind, slots, err)
		}
	}
}

func TestBytes(t *testing.T) {
	slots := make([]pipeline.Value, 2)
	if err := NewBytes([]Field{field(t, "value", 0, 0)}, 1, Default()).Decode([]byte("\xff\x00"), slots); err != nil {
		t.Fatal(err)
	}
	if slots[0] != pipeline.BytesValue("\xff\x00") || slots[1].Str != `"/wA="` {
		t.Errorf("%v", slots)
	}
	if err := NewBytes([]Field{field(t, "value", 0, pipeline.Int)}, -1, Default()).Decode([]byte("1"), slots); err == nil {
		t.Error("bytes are accepted as a declared int")
	}
}
