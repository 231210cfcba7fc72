package equality

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// aggregates draws what a window computes: some of all there are, over columns of every kind.
func (d *drawing) aggregates() string {
	all := []string{
		"count()", "count(k)", "sum(v)", "avg(v)", "min(v)", "max(k)", "first(k)", "last(id)", "stddev(v)", "stddev_samp(v)", "variance(v)", "variance_samp(v / 3)",
		"median(v)", "percentile(v, 95)", "percentile(v / 7, 12.5)", "distinct(v)", "distinct(k)", "collect(id, 3)", "collect(k, 100)", "increase(v)", "rate(v)",
	}
	var parts []string
	for n := range rapid.IntRange(1, 6).Draw(d.t, "aggregates") {
		parts = append(parts, fmt.Sprintf("a%d: \"%s\"", n, rapid.SampledFrom(all).Draw(d.t, "aggregate")))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
