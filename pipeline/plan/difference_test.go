package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestDifference(t *testing.T) {
	const base = "weir plan 1\nsource \"s\" filter \"a/+\"\n field \"v\" int\nstep \"z\" zscore\n from source \"s\"\n by k ttl 0 value v n 3 limit 4\nsink \"out\" from step \"z\".0 whole false\n column \"v\"\n"
	for name, c := range map[string]struct {
		now  string
		want []string
	}{
		"nothing":    {base, nil},
		"a setting":  {strings.ReplaceAll(base, "n 3", "n 5"), []string{`step "z" has «n 5», had «n 3»`}},
		"a kind":     {strings.ReplaceAll(base, `"z" zscore`, `"z" lag`), []string{`step "z" has «lag», had «zscore»`}},
		"a new name": {strings.ReplaceAll(base, `step "z" z`, `step "y" z`), []string{`step "z" is gone`, `step "y" is new`}},
		"a column":   {base + " column \"w\"\n", []string{`sink "out" has «"v" column "w"», had «"v"»`}},
		"a filter":   {strings.ReplaceAll(base, "a/+", "b/+"), []string{`source "s" has «filter "b/+"», had «filter "a/+"»`}},
		"order":      {"weir plan 1\nsink \"out\" from step \"z\".0 whole false\n column \"v\"\n" + base[len("weir plan 1\n"):len(base)-len("sink \"out\" from step \"z\".0 whole false\n column \"v\"\n")], []string{"the order of its parts"}},
	} {
		if got := Difference(base, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Difference("", base); len(got) != 4 {
		t.Errorf("from nothing: %q", got)
	}
	if got := Difference("rubbish \"\n x\n\n\"", base); len(got) == 0 {
		t.Error("rubbish is no plan")
	}
}

func FuzzDifference(f *testing.F) {
	f.Add("weir plan 1\nstep \"z\" zscore\n n 3\n", "weir plan 1\nstep \"z\" zscore\n n 4\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := Difference(a, b); a == b && len(got) > 0 {
			t.Fatalf("%q", got)
		}
	})
}
