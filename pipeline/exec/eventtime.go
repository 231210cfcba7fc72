package exec

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// eventTime reads and checks the event time: a bad stamp refuses the record and leaves the watermark alone.
func eventTime(t *plan.Time, stamp pipeline.Stamp, slots []pipeline.Value) (ms int64, refusal string) {
	if t == nil {
		return pipeline.NoTime, ""
	}
	v := slots[t.Slot]
	if v.IsNull() {
		return 0, "the time field is missing or null"
	}
	ms, err := parseTime(t, stamp, v)
	if err != nil {
		return 0, err.Error()
	}
	if ms < t.MinMs || ms > t.MaxMs {
		return 0, fmt.Sprintf("event time %d ms is outside of the sane range [%d, %d]: wrong unit?", ms, t.MinMs, t.MaxMs)
	}
	if t.MaxAheadMs > 0 && stamp.Trusted && ms > stamp.Wall+t.MaxAheadMs {
		return 0, fmt.Sprintf("event time is %d ms ahead of the gateway's clock, allowed are %d", ms-stamp.Wall, t.MaxAheadMs)
	}
	return ms, ""
}

func parseTime(t *plan.Time, stamp pipeline.Stamp, v pipeline.Value) (int64, error) {
	switch {
	case t.Unit == codec.LocalTime:
		return t.Local.Parse(v, stamp)
	case t.Unit == codec.RFC3339:
		return codec.ParseRFC3339(v, t.Local, stamp)
	}
	return codec.ParseTime(v, t.Unit)
}
