// Package join holds the steps that bring rows of two inputs together: interval join, window join, latest-value join, and the lookup in
// a table that came with the plan.
//
// An operator is owned by the goroutine of its task, reads no clock and keeps what must survive a restart in its state tables alone
// (FORMAT.md); the order of the rows held and what is due next are rebuilt from them in Restored. Each is a deterministic function of
// the rows, watermarks and stamps it is given, whatever the batches. After a restore the engine repeats the watermark of the checkpoint
// before the first row.
//
// Interval and window join hold rows per key, ordered by (event time, position, arrival), until the watermark says that no partner can
// come: a row is late when its time lies below the watermark, hence a row that waits for partners up to the instant u is let go when the
// watermark reaches u + 1. The definitions are those of Flink's interval join and window join (DataStream API), with outer joins as in
// SQL; docs/operators.md says the same for users.
package join
