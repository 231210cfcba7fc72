package log

// Beat tells whether the committer gets on: beat moves with each of its steps, and with each try while it waits for space on the disk; working is false while it waits for records. Working on
// one beat for minutes, it hangs: a write or sync that does not return. It never waits for the disk itself.
func (l *Log) Beat() (beat uint64, working bool) { return l.beat.Load(), l.working.Load() }
