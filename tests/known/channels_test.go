package known

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
)

// TestPricesOfChannels: the prices follow from the deliveries: median and percentile within the bound that
// docs/operators.md states, the rest exactly.
func TestPricesOfChannels(t *testing.T) {
	type bid struct {
		Ev      int64
		Channel string
		Price   float64
	}
	prices, seen := map[string][]float64{}, map[int64]bool{}
	for _, d := range arrivals(t, "nexmark-mini") {
		if d.Topic != "nexmark/bid" {
			continue
		}
		var b bid
		if err := json.Unmarshal([]byte(d.Payload), &b); err != nil {
			t.Fatal(err)
		}
		if !seen[b.Ev] {
			seen[b.Ev] = true
			prices[b.Channel] = append(prices[b.Channel], b.Price)
		}
	}
	out, _ := replayOnce(t, answer{set: "nexmark-mini", pipeline: "channels"}, 512, 1)
	rows := records(t, out["prices"])
	if len(rows) != len(prices) || len(rows) != 4 {
		t.Fatalf("%d channels, want %d", len(rows), len(prices))
	}
	for _, r := range rows {
		x := prices[r["channel"]]
		if want := fmt.Sprintf("[%.0f %.0f %.0f]", x[0], x[1], x[2]); r["opening"] != want {
			t.Errorf("%s opens with %s, want %s", r["channel"], r["opening"], want)
		}
		mean, squares := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			squares += (v - mean) * (v - mean)
		}
		if want := fmt.Sprint(math.Sqrt(squares / float64(len(x)))); !near(r["spread"], want) {
			t.Errorf("%s: stddev is %s, want %s", r["channel"], r["spread"], want)
		}
		slices.Sort(x)
		for column, p := range map[string]float64{"median": 0.5, "p95": 0.95} {
			rank := p * float64(len(x)-1)
			low, high := x[int(rank)], x[int(rank)+1]
			want := low + (high-low)*(rank-math.Floor(rank))
			if got, _ := strconv.ParseFloat(r[column], 64); math.Abs(got-want) > high/129 {
				t.Errorf("%s: %s is %g, want %g within 0.8 %%", r["channel"], column, got, want)
			}
		}
	}
}
