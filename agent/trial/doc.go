// Package trial runs a pipeline against the cases of a test file: messages in, expected results out, with crashes and restarts
// in between, in virtual time. It is `weir test`.
//
// A case runs twice when it has crash_at or restart_at: first undisturbed, which also makes the journal (a tick is journaled
// wherever a timer is due and nothing arrives, as the agent does), then over the same journal with the crashes. Engine, coordinator, checkpoint store and
// restore are those of `weir run`; broker, clock and upstream are replaced. What the upstream then holds must be the
// same, result by result. Checkpoints lie in a temporary directory, which is removed; nothing else is written.
package trial
