package codec

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

func TestElements(t *testing.T) {
	for doc, want := range map[string][]string{
		`[]`:  nil,
		`[ ]`: nil,
		`[1]`: {"1"},
		`[ 1 , "a,]\"" ,[2,[3]],{"x":[1,2]} ,null , -1e3]`: {"1", `"a,]\""`, "[2,[3]]", `{"x":[1,2]}`, "null", "-1e3"},
	} {
		all, ok := Elements(pipeline.JSONValue(doc))
		if !ok {
			t.Errorf("%s is no array", doc)
			continue
		}
		var got []string
		for i, e := range all {
			if i != len(got) {
				t.Errorf("%s: index %d, want %d", doc, i, len(got))
			}
			got = append(got, e)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", doc, d)
		}
	}
	for _, v := range []pipeline.Value{{}, pipeline.JSONValue(`{"a":[1]}`), pipeline.StringValue("[1]")} {
		if _, ok := Elements(v); ok {
			t.Errorf("%v is taken for an array", v)
		}
	}
}
