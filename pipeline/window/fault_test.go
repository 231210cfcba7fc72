package window_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

// Each test here plants a mistake and demands that the check which guards against it notices.

func TestPlantedFiringOrderIsFound(t *testing.T) {
	var records []optest.Record
	for i := range 10 {
		records = append(records, optest.Record{Time: int64(i), Slots: []pipeline.Value{pipeline.StringValue(fmt.Sprint(i)), pipeline.IntValue(1)}})
	}
	for _, planted := range []bool{false, true} {
		result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator {
			op := window.NewTumbling(tumbling(time.Second, 0))
			if planted {
				op.PlantUnsorted()
			}
			return op
		}}, records)
		if err != nil {
			t.Fatal(err)
		}
		if found := firingOrder(result.Ports[0], outStart, outEnd, outKey) != nil; found != planted {
			t.Errorf("planted %v, found %v", planted, found)
		}
	}
}

func TestPlantedEarlyWatermarkIsFound(t *testing.T) {
	records := accepted(t, "nab-traffic")
	want := optest.Expected(t, "nab-traffic", "late_5m_D10m_L0_dropped")
	for _, rows := range []int{0, 8} {
		result, err := optest.Run(optest.Config{
			Ports: 2, OutOfOrdernessMs: (10 * time.Minute).Milliseconds(), EarlyWatermark: rows,
			New: func() pipeline.Operator { return window.NewTumbling(tumbling(5*time.Minute, 0)) },
		}, records)
		if err == nil {
			if diff := compareDropped(result, want); (diff != "") != (rows > 0) {
				t.Errorf("batches of %d rows: found %q", rows, diff)
			}
		} else if rows == 0 {
			t.Fatal(err)
		}
	}
}

func TestPlantedSumWrapIsFound(t *testing.T) {
	values := []pipeline.Value{pipeline.IntValue(math.MaxInt64), pipeline.IntValue(1)}
	want, _ := exactSum(values)
	if got, _ := aggregate(t, window.Sum, (*window.Tumbling).PlantSumWrap, values...); got == want {
		t.Errorf("a sum that wraps gave %v, as the exact one", got)
	}
}
