package ops

import "github.com/weirstream/weir/pipeline"

// timerless is for operators that set no timers but need the clock: pipeline.Stateless would spare them that too.
type timerless struct{}

func (timerless) Watermark(int64, *pipeline.Out)        {}
func (timerless) Elapsed(pipeline.Stamp, *pipeline.Out) {}
func (timerless) Timers() (elapsed, eventTime int64)    { return pipeline.NoDeadline, pipeline.NoDeadline }
