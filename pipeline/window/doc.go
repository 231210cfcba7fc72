// Package window aggregates keyed rows in windows of event time.
//
// Its parts are separate, so that further kinds of windows are further assigners and triggers over the same accumulators:
// assign.go says which window a row belongs to, panes.go indexes the open windows by their deadlines, agg.go and the acc
// files keep the aggregates as bytes of fixed layout (FORMAT.md), fire.go turns a window into rows, tumbling.go is the
// operator.
//
// An operator is owned by the goroutine of its task. What must survive a restart is in its state tables alone; the index
// of open windows is rebuilt from them in Restored. After a restore the engine repeats the watermark of the checkpoint
// before the first row.
package window
