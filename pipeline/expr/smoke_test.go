package expr

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

type testEnv map[string]struct {
	slot int
	kind pipeline.Kind
}

func (e testEnv) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	f, ok := e[p.String()]
	if !ok {
		return 0, 0, fmt.Errorf("there is no field %s", p)
	}
	return f.slot, f.kind, nil
}

func TestSmoke(t *testing.T) {
	env := testEnv{"temp": {0, pipeline.Float}, "n": {1, pipeline.Int}, "s": {2, pipeline.String}, "x": {3, pipeline.Null}, "a.b[0]": {4, 0}, "$topic": {5, pipeline.String}}
	slots := []pipeline.Value{pipeline.FloatValue(21.5), pipeline.IntValue(9007199254740993), pipeline.StringValue("on"), {}, pipeline.IntValue(3), pipeline.StringValue("a/b")}
	for _, src := range []string{"temp > -60 && temp < 120", "n == 9007199254740993", "temp * 1.8 + 32", "x > 3", "x ?? 5", "a.b[0] in 1..3", "s in ['on','off']",
		"split($topic, '/', 1) + '!'", "1h30m", "n + 9223372036854775807", "n * n", "x == null", "tmp > 3", "temp = 3", "s + 1", "rond(temp)", "temp > 1 > 2", "-9223372036854775808", "1/0",
		"temp > 1 ? 'a' : s matches '^o'", "s not in ['on']", "not x", "a.b[0] ** 2", "s matches '('", "-n % 7", "string(temp) + s", "x > 1 || true", "x > 1 && 3"} {
		p, err := Compile(src, env)
		if err != nil {
			t.Log(src, "ERR", err)
			continue
		}
		ok, why := p.True(slots)
		t.Log(p, "=>", p.Eval(slots), p.Kind(), ok, why)
	}
}
