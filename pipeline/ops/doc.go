// Package ops holds the steps of a pipeline that are no windows and no joins: filter, select, union, cast, flatten, split; deadband,
// changed, lag, delta, counter, zscore, throttle, sample, alarm, absence, dedup, sort.
//
// An operator is owned by the goroutine of its task, reads no clock and keeps what must survive a restart in its state
// tables alone (FORMAT.md); deadlines and sort orders in memory are rebuilt from them in Restored. Each is a
// deterministic function of the rows, watermarks and stamps it is given. After a restore the engine repeats the
// watermark of the checkpoint before the first row.
//
// A row that cannot be judged, because an expression failed or a limit is reached, becomes a dead letter and leaves the
// state as it was. docs/operators.md says the same for users.
package ops
