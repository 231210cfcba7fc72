package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func TestSplit(t *testing.T) {
	op := ops.NewSplit([]*expr.Program{optest.Expr("value > 30"), optest.Expr("value > 10")})
	result := run(t, optest.Config{Ports: 3, New: func() pipeline.Operator { return op }}, []optest.Record{
		rec(1, "a", 31), rec(2, "a", 11), rec(3, "a", 10), rec(4, "a", nil), rec(5, "a", "x"),
	})
	for port, want := range []string{"1:31", "2:11", "3:10 4:null"} {
		if got := show(result.Ports[port], 1); got != want {
			t.Errorf("port %d has %s, want %s", port, got, want)
		}
	}
	if got := showDead(result.Dead); got != "5:expression" {
		t.Errorf("dead letters %s", got)
	}
}

// TestShare: the part of a key is fixed for ever, near the share asked for, and within every larger one.
func TestShare(t *testing.T) {
	inside := func(parts int, key any) bool {
		op := ops.NewShare(ops.ShareConfig{Key: []int{0}, Parts: parts})
		result := run(t, optest.Config{Ports: 2, New: func() pipeline.Operator { return op }}, []optest.Record{rec(1, key, 1)})
		if len(result.Ports[0])+len(result.Ports[1]) != 1 {
			t.Fatal("a row goes to one port")
		}
		return len(result.Ports[0]) == 1
	}
	in, small := 0, 0
	const keys = 4000
	for i := range keys {
		key := fmt.Sprintf("dev-%d", i)
		if inside(1000, key) {
			in++
			if !inside(2500, key) {
				t.Errorf("%s is within 10 percent and not within 25", key)
			}
		}
		if inside(1, key) {
			small++
		}
	}
	if share := float64(in) / keys; math.Abs(share-0.1) > 0.02 {
		t.Errorf("%v of the keys are within 10 percent", share)
	}
	if small > 5 {
		t.Errorf("%d keys are within 0.01 percent", small)
	}
}

func TestCast(t *testing.T) {
	config := ops.CastConfig{Carry: wide(2), Columns: []ops.CastColumn{
		{Slot: 0, Prog: optest.Expr("int(value)"), Uint: true, Name: "value"}, {Slot: 1, Prog: optest.Expr("string(key)"), Name: "key"},
	}}
	result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewCast(config) }}, []optest.Record{
		rec(1, 7, 1.9), rec(2, nil, " 42 "), rec(3, 1, nil), rec(4, 1, -1), rec(5, 1, "x"), rec(6, 1, 1e30),
	})
	if got, want := show(result.Ports[0], 0, 1, 3), "1:1,7,1.9 2:42,null, 42  3:null,1,null"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := showDead(result.Dead); got != "4:expression 5:expression 6:expression" {
		t.Errorf("dead letters %s", got)
	}
}
