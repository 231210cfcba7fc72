package join_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
)

func drawLatest(t *rapid.T) join.LatestConfig {
	return join.LatestConfig{Sides: sides(), Output: output(false), Type: rapid.SampledFrom([]join.Type{join.Inner, join.LeftOuter}).Draw(t, "type")}
}

// modelLatest looks back from each left row.
func modelLatest(c join.LatestConfig, records []optest.Record) (rows []string) {
	for n, r := range records {
		if r.Input == join.Right {
			continue
		}
		a := arrival(n, r)
		var found *arrived
		for m := n - 1; m >= 0 && found == nil; m-- {
			over := c.TTL > 0 && records[m].Elapsed+c.TTL <= r.Elapsed
			if b := arrival(m, records[m]); b.side == join.Right && b.key == a.key && !a.null {
				if over {
					break
				}
				found = b
			}
		}
		if found != nil || c.Type == join.LeftOuter {
			rows = append(rows, fmt.Sprintf("%d/%d/0: %s at %d", n+1, pipeline.During, pairText(a, found), a.time))
		}
	}
	return rows
}

func latestAgainstModel(c join.LatestConfig, records []optest.Record, plant func(*join.Latest)) string {
	result, err := optest.Run(optest.Config{Ports: 1, New: func() pipeline.Operator {
		op := join.NewLatest(c)
		plant(op)
		return op
	}}, records)
	if err != nil {
		return err.Error()
	}
	if got, want := showAll(result.Ports[0]), strings.Join(modelLatest(c, records), "\n"); got != want {
		return fmt.Sprintf("joined\n%s\nwant\n%s", got, want)
	}
	return ""
}

func TestLatestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawLatest(t)
		c.TTL = rapid.SampledFrom([]int64{0, 0, 10, 60}).Draw(t, "ttl")
		if diff := latestAgainstModel(c, drawRecords(t, 12), func(*join.Latest) {}); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPlantedStaleRowIsFound(t *testing.T) {
	for seed := range 100 {
		if rapid.Custom(func(t *rapid.T) string {
			return latestAgainstModel(drawLatest(t), drawRecords(t, 12), (*join.Latest).PlantStale)
		}).Example(seed) != "" {
			return
		}
	}
	t.Error("not found")
}

func TestLatestReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawLatest(t)
		c.MaxKeys, c.TTL = rapid.SampledFrom([]int{0, 1}).Draw(t, "max_keys"), rapid.SampledFrom([]int64{0, 15}).Draw(t, "ttl")
		optest.ReplayEquality(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return join.NewLatest(c) }}, drawRecords(t, 12))
	})
}
