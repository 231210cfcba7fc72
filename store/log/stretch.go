package log

import "time"

// Stretch has a commit wait longer than Linger for more records: until its first record has waited linger, or records have come together, whichever is first;
// Linger, which is configured, is waited for in any case. A linger of Linger or less ends it. The records bound what a sender may have to wait for that
// leaves only so many unacknowledged. What else makes a commit begin (DESIGN.md, "Group commit") does so as ever. It may be called at any time, from any goroutine; the
// block that is open waits as it would have.
func (l *Log) Stretch(linger time.Duration, records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stretch, l.stretchRecords = max(linger, l.o.Linger), uint64(max(records, 1))
	if l.open.count > 0 {
		l.due.Reset(max(l.wait()-time.Since(l.open.started), 0))
	}
}

// wait is how long the open block waits from its first record on. The caller holds mu.
func (l *Log) wait() time.Duration {
	if l.stretch > l.o.Linger && l.open.count < l.stretchRecords {
		return l.stretch
	}
	return l.o.Linger
}

// enough is called with how many records the open block had before some were added: when they have come together, it is due as if nothing were stretched.
func (l *Log) enough(before uint64) {
	if l.stretch > l.o.Linger && before < l.stretchRecords && l.open.count >= l.stretchRecords {
		l.due.Reset(max(l.o.Linger-time.Since(l.open.started), 0))
	}
}
