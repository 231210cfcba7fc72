package ops_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func zscoreConfig(n int, limit float64) ops.ZScoreConfig {
	return ops.ZScoreConfig{Keyed: byKey(), Carry: wide(3), Value: optest.Expr("value"), N: n, Limit: limit, ZSlot: 0, MeanSlot: 1, SDSlot: 2}
}

func TestZScore(t *testing.T) {
	few := zscoreConfig(2, 1)
	few.MaxKeys = 1
	for _, c := range []keyedCase{
		{
			name: "of the four before it, itself not among them; an outlier joins them", op: ops.NewZScore(zscoreConfig(4, 2)), dropped: 7,
			// mean of 1 3 1 3 is 2, deviation 1: 4 is at the limit, 5 above it. Then 3 1 3 5, 1 3 5 4 …
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 3), rec(3, "b", 9), rec(4, "a", 1), rec(5, "a", 3), rec(6, "a", 5), rec(7, "a", 5), rec(8, "a", nil)},
			want:    "6:3,2,1,5",
		},
		{
			name: "at the limit is within", op: ops.NewZScore(zscoreConfig(4, 2)), dropped: 5,
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 3), rec(3, "a", 1), rec(4, "a", 3), rec(5, "a", 4)},
		},
		{
			name: "no verdict while all are equal", op: ops.NewZScore(zscoreConfig(3, 2)), dropped: 5,
			records: []optest.Record{rec(1, "a", 0.1), rec(2, "a", 0.1), rec(3, "a", 0.1), rec(4, "a", 1e9), rec(5, "a", 0.1)},
		},
		{
			name: "text is no sample; one key too many", op: ops.NewZScore(few), dropped: 2, dead: "1:expression 3:max_keys",
			records: []optest.Record{rec(1, "a", "x"), rec(2, "a", 1), rec(3, "b", 1), rec(4, "a", 3), rec(5, "a", -2)},
			want:    "5:-4,2,1,-2",
		},
	} {
		c.slots = []int{0, 1, 2, 4}
		c.run(t)
	}
}
