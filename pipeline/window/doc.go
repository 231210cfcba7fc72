// Package window aggregates keyed rows in windows of event time, of processing time and of arrival.
//
// Its parts are separate. assigner.go says which windows a time belongs to. agg.go and the files of the aggregates keep accumulators as
// bytes of fixed layout (FORMAT.md), top.go the first rows instead; both merge, so that windows are made of pieces. config.go holds what
// all operators share: evaluating, adding, emitting. The operators: tumbling.go with panes.go and fire.go; hopping.go with series.go (panes
// of a key as a trie), fold.go (what slides), keys.go, slides.go and early.go; session.go with agenda.go (timers); count.go; statewindow.go;
// processing.go, which runs any of them that knows a watermark by the journal's clock (clock.go). farpanes.go and faragenda.go keep what
// hopping windows and sessions know of their keys beside a table that does not fit the memory.
//
// An operator is owned by the goroutine of its task. What must survive a restart is in its state tables alone; indexes and partial contents
// are rebuilt from them in Restored or when asked for, and are functions of them: a restart never shows in a result. After a restore
// the engine repeats the watermark of the checkpoint before the first row, in phase During, which no other advance has: nothing fires by it.
package window
