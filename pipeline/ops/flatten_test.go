package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func array(text string) optest.Record {
	r := rec(7, "a", nil)
	r.Slots[1] = pipeline.JSONValue(text)
	return r
}

// flattenConfig: own columns 0 element, 1 index, 2 its part t, 3 its part v, 4 $time.
func flattenConfig() ops.FlattenConfig {
	return ops.FlattenConfig{Carry: wide(5), Array: 1, IndexSlot: 1, ElementsMax: 100, Fields: []codec.Field{
		{Slot: 0}, {Slot: 2, Path: pipeline.Path{{Name: "t"}}}, {Slot: 3, Path: pipeline.Path{{Name: "v"}}},
	}}
}

func TestFlatten(t *testing.T) {
	text := rec(7, "a", "x")
	objects := func(c *ops.FlattenConfig) {
		c.Objects, c.Fields[1].Kind, c.Scalars = true, pipeline.Int, []ops.ElementScalar{{Slot: 3, Name: "v"}}
	}
	for _, c := range []struct {
		name       string
		change     func(*ops.FlattenConfig)
		records    []optest.Record
		want, dead string
		times      string
		dropped    uint64
	}{
		{
			name: "a row per element, with its index", records: []optest.Record{array(`[5, "x", null, [1,2], {"t":1,"v":true}]`)},
			want: "1:5,0,null,null 1:x,1,null,null 1:null,2,null,null 1:[1,2],3,null,null 1:{\"t\":1,\"v\":true},4,1,true",
		},
		{
			name: "no array: null is counted, what is none is refused, an empty one is nothing", dropped: 1,
			records: []optest.Record{rec(1, "a", nil), text, array(`{"a":[1]}`), array(`[]`), array(`[1]`)},
			want:    "5:1,0,null,null", dead: "2:no_array 3:no_array",
		},
		{
			name: "bad elements are dead letters with their index; the others go on", change: objects,
			records: []optest.Record{array(`[{"t":1,"v":[1,[2,3]]}, 5, null, {"t":"x"}, {"t":2,"t":2}, {"t":3,"v":9}, {}]`)},
			want:    `1:{"t":3,"v":9},5,3,9 1:{},6,null,null`,
			dead: "1:element 0: field v: declared scalar, found an array 1:element 1: declared an object, found a number " +
				"1:element 2: declared an object, found null 1:element 3: field t: declared int, found text \"x\" 1:element 4: field t: the key comes twice",
		},
		{
			name: "own time, in its range", change: func(c *ops.FlattenConfig) {
				c.Time = &ops.ElementTime{Slot: 2, OutSlot: 4, Unit: codec.Seconds, MinMs: 0, MaxMs: 10000}
			},
			records: []optest.Record{array(`[{"t":1},{"t":9},{"t":11},{},{"t":"x"}]`)}, times: "1000 9000",
			want: `1:{"t":1},0,1,null 1:{"t":9},1,9,null`,
			dead: "1:element 2: event time 11000 ms is outside of the sane range [0, 10000]: wrong unit? " +
				"1:element 3: the time field is missing or null 1:element 4: parse time: want a number of s since 1970, found \"x\"",
		},
		{
			name: "too many elements", change: func(c *ops.FlattenConfig) { c.ElementsMax = 2 },
			records: []optest.Record{array(`[1,2,3]`), array(`[4,5]`)}, want: "2:4,0,null,null 2:5,1,null,null",
			dead: "1:flatten: the array has more than 2 elements",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := flattenConfig()
			if c.change != nil {
				c.change(&config)
			}
			result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewFlatten(config) }}, c.records)
			if got := show(result.Ports[0], 0, 1, 2, 3); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var dead, times []string
			for _, d := range result.Dead {
				text := d.Detail
				if d.Reason == "no_array" {
					text = d.Reason
				}
				dead = append(dead, fmt.Sprintf("%d:%s", uint64(d.Pos), text))
			}
			if got := strings.Join(dead, " "); got != c.dead {
				t.Errorf("dead letters\ngot  %s\nwant %s", got, c.dead)
			}
			for _, r := range result.Ports[0] {
				times = append(times, showValue(pipeline.IntValue(r.Time)))
				if c.times != "" && r.Slots[4].Int() != r.Time {
					t.Errorf("$time is %v, want %d", r.Slots[4], r.Time)
				}
				if c.times == "" && r.Time != 7 {
					t.Errorf("event time is %d, want that of the message", r.Time)
				}
				if r.Slots[5].Str != "a" {
					t.Errorf("the row that came in is not carried: %v", r.Slots)
				}
			}
			if c.times != "" && strings.Join(times, " ") != c.times {
				t.Errorf("times %v, want %s", times, c.times)
			}
			if result.Counters.Dropped != c.dropped {
				t.Errorf("dropped %d, want %d", result.Counters.Dropped, c.dropped)
			}
		})
	}
}
