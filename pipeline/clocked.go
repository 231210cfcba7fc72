package pipeline

// Clocked is an operator that follows the journal's clock at every stamp, not only when a timer of its own is due. The engine calls Tick
// with each new stamp, before Elapsed and before the rows at or behind it; a repeated stamp changes nothing.
type Clocked interface{ Tick(now Stamp) }
