package ops_test

import (
	"encoding/json"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/ops"
)

// FuzzFlatten: whatever a device sends, each element of its array is one row or one dead letter, in order, as encoding/json counts them.
func FuzzFlatten(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{"t":1,"v":true},5,null,[1,[2]],{"t":"x"},{"t":1,"t":2}]}`, `{"a":[]}`, `{"a":null}`, `{"a":"[1]"}`, `{"a":[ "]", "\"", {"v":"}"} ]}`, `{"a":[1,]}`,
	} {
		f.Add([]byte(seed))
	}
	decoder := codec.NewJSON([]codec.Field{{Path: pipeline.Path{{Name: "a"}}, Slot: 1}}, -1, codec.Default())
	config := flattenConfig()
	config.Objects, config.Fields[1].Kind, config.Scalars = true, pipeline.Int, []ops.ElementScalar{{Slot: 3, Name: "v"}}
	strict, loose := ops.NewFlatten(config), ops.NewFlatten(flattenConfig())
	f.Fuzz(func(t *testing.T, payload []byte) {
		slots := make([]pipeline.Value, 4)
		if decoder.Decode(payload, slots) != nil {
			return
		}
		want := -1
		var elements []json.RawMessage
		if v := slots[1]; v.Kind == pipeline.JSON && v.Str[0] == '[' {
			if err := json.Unmarshal([]byte(v.Str), &elements); err != nil {
				t.Fatalf("%s is taken for an array: %v", v.Str, err)
			}
			want = min(len(elements), 100)
		}
		for _, op := range []*ops.Flatten{strict, loose} {
			out := pipeline.NewOut("", 1)
			op.Process(0, &pipeline.Row{Slots: slots}, out)
			rows, dead := out.Ports[0], len(out.Dead)
			switch {
			case len(elements) > 100 && (len(rows) > 0 || dead != 1):
				t.Fatalf("%d elements make %d rows and %d dead letters", len(elements), len(rows), dead)
			case want >= 0 && len(elements) <= 100 && len(rows)+dead != want:
				t.Fatalf("%d elements make %d rows and %d dead letters of %s", want, len(rows), dead, slots[1].Str)
			case want < 0 && len(rows) > 0:
				t.Fatalf("no array, and %d rows of %s", len(rows), payload)
			}
			last := int64(-1)
			for _, r := range rows {
				if i := r.Slots[1].Int(); i <= last || i >= int64(len(elements)) {
					t.Fatalf("index %d behind %d", i, last)
				} else {
					last = i
				}
			}
		}
	})
}
