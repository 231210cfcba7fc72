package expr

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

var benchEnv = testEnv{{"temp", pipeline.Float}, {"n", pipeline.Int}, {"state", pipeline.String}, {"x", pipeline.Null}}
var benchSlots = []pipeline.Value{pipeline.FloatValue(21.5), pipeline.IntValue(9007199254740993), pipeline.StringValue("running"), {}}

var benchSources = []struct{ name, src string }{
	{"compare", `temp > 8`},
	{"range", `temp > -60 && temp < 120`},
	{"exact", `n == 9007199254740993`},
	{"text", `state == "running"`},
	{"convert", `temp * 1.8 + 32`},
	{"null", `x > 3 || isNull(x)`},
	{"in", `state in ["idle", "running", "fault"]`},
	{"mixed", `state != "off" && (temp - 20) * 2 > 1 && n % 1000 == 993`},
	{"matches", `state matches "^run"`},
}

func BenchmarkTrue(b *testing.B) {
	for _, c := range benchSources {
		p, err := Compile(c.src, benchEnv)
		if err != nil {
			b.Fatal(err)
		}
		if p.Kind() != pipeline.Bool {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.True(benchSlots)
			}
		})
	}
}

func BenchmarkEval(b *testing.B) {
	for _, c := range benchSources {
		p, err := Compile(c.src, benchEnv)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Eval(benchSlots)
			}
		})
	}
}

// TestEvalAllocatesNothing keeps the promise of the benchmarks.
func TestEvalAllocatesNothing(t *testing.T) {
	sources := []string{`clamp(temp, 0, 10) + min(temp, n, 5) + abs(-temp)`, `round(temp, 1)`, `substring(state, 1, 3)`, `split(state, "n", 0) == "ru"`,
		`coalesce(x, temp, 3)`, `len(state) > 3 ? temp : 0`, `n * 3 + div(n, 7)`, `int(temp) in 1..30`, `trim(state) endsWith "ing"`}
	for _, c := range benchSources {
		sources = append(sources, c.src)
	}
	for _, src := range sources {
		p, err := Compile(src, benchEnv)
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Eval(benchSlots); v.Kind == pipeline.Error {
			t.Errorf("%s: %s", src, v.Str)
		}
		if n := testing.AllocsPerRun(100, func() {
			p.Eval(benchSlots)
			if p.Kind() == pipeline.Bool {
				p.True(benchSlots)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", src, n)
		}
	}
}
