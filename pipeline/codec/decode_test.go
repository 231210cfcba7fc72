package codec

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/weirstream/weir/pipeline"
)

func field(t testing.TB, path string, slot int, kind pipeline.Kind) Field {
	t.Helper()
	p, err := pipeline.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return Field{Path: p, Slot: slot, Kind: kind}
}

// cborOf is a JSON document in CBOR, integers exact.
func cborOf(t testing.TB, doc string) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(doc)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	b, err := cbor.Marshal(exact(v))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}
