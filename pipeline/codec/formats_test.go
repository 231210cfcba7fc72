package codec

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestDocumentedFormats executes the examples of docs/formats.md.
func TestDocumentedFormats(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	header, n := []string(nil), 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		if rest, ok := strings.CutPrefix(line, "```"); ok {
			header = strings.Fields(rest)
			continue
		}
		in, want, ok := strings.Cut(line, "→")
		if len(header) == 0 || !ok {
			continue
		}
		want = strings.TrimSpace(want)
		got := runExample(t, header, strings.TrimRight(in, " "))
		if got != want && !(strings.HasPrefix(want, "refused: ") && strings.HasPrefix(got, want)) {
			t.Errorf("%v: %s\n  gives %s\n  want  %s", header, in, got, want)
		}
		n++
	}
	if n < 60 {
		t.Errorf("only %d examples were found", n)
	}
}

func runExample(t *testing.T, header []string, in string) string {
	t.Helper()
	slots := make([]pipeline.Value, 3)
	var err error
	switch header[0] {
	case "decode":
		err = exampleDecoder(t, header[1], header[2]).Decode(examplePayload(t, header[1], in), slots)
	case "encode":
		slots[1] = pipeline.IntValue(3)
		if err = NewJSON(nil, 0, Default()).Decode([]byte(in), slots); err == nil {
			var out []byte
			if out, err = AppendJSON(nil, []Column{{"x", 1}}, 0, slots); err == nil {
				return string(out)
			}
		}
	case "time":
		unit, bad := ParseUnit(header[1])
		if bad != nil {
			t.Fatal(bad)
		}
		if err = NewJSON([]Field{field(t, "a", 0, pipeline.Null)}, -1, Default()).Decode([]byte(`{"a":`+in+`}`), slots); err != nil {
			t.Fatal(err)
		}
		var ms int64
		if unit == LocalTime {
			fold, _ := ParseFold(header[2])
			gap, _ := ParseGap(header[3])
			ms, err = newLocal(t, sqlLayout, "Europe/Berlin", fold, gap).Parse(slots[0], pipeline.Stamp{})
		} else {
			ms, err = ParseTime(slots[0], unit)
		}
		slots[0] = pipeline.IntValue(ms)
	default:
		t.Fatalf("unknown example %v", header)
	}
	if err != nil {
		return "refused: " + err.Error()
	}
	return text(t, slots[0])
}

func exampleDecoder(t *testing.T, format, kindName string) Decoder {
	t.Helper()
	kind := pipeline.Null
	for k := pipeline.Null; k <= pipeline.JSON; k++ {
		if k.String() == kindName {
			kind = k
		}
	}
	switch format {
	case "json":
		return NewJSON([]Field{field(t, "a", 0, kind)}, -1, Default())
	case "cbor":
		return NewCBOR([]Field{field(t, "a", 0, kind)}, -1, Default())
	case "csv":
		return NewCSV([]Field{field(t, "a", 0, kind)}, -1, []string{"a", "b"}, ',', Default())
	case "sparkplug":
		return NewSparkplug([]Field{field(t, "a", 0, kind)}, -1, false, Default())
	case "influx":
		return NewInflux([]Field{field(t, "a", 0, kind)}, -1, Default())
	case "text":
		return NewText([]Field{field(t, "value", 0, kind)}, -1, Default())
	}
	return NewBytes([]Field{field(t, "value", 0, kind)}, -1, Default())
}

func examplePayload(t *testing.T, format, in string) []byte {
	t.Helper()
	switch format {
	case "csv", "influx":
		return []byte(in)
	case "json":
		return []byte(strings.Replace(in, "⟨BOM⟩", bom, 1))
	case "cbor", "sparkplug":
		b, err := hex.DecodeString(strings.ReplaceAll(in, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s, err := strconv.Unquote(in)
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return []byte(s)
}
