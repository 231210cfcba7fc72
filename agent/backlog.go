package agent

// deliverable counts released results whose upstream is not known to be away.
func (a *attempt) deliverable() (n uint64) {
	if f := a.feed; f != nil {
		n = f.Deliverable()
	}
	for _, l := range a.links {
		if m := l.Sender.Metrics(); m.Fenced.Load() || m.LastError() != "" || m.Held() != "" {
			continue
		}
		if st := l.Queue.Stats(); st.VisibleUpTo > st.ConfirmedUpTo {
			n += st.VisibleUpTo - st.ConfirmedUpTo
		}
	}
	return n
}

// blocked tells that a full sink holds a task right now: a barrier would stand behind it.
func (a *attempt) blocked() bool {
	for _, l := range a.links {
		if l.Queue.Stats().Blocked {
			return true
		}
	}
	return false
}

// pushedBack tells that a sink's full queue holds the pipeline, or a full disk its large state: it waits, it is not stuck.
func (a *attempt) pushedBack() bool {
	if a.state != nil && a.state.Waits() != nil {
		return true
	}
	for _, l := range a.links {
		if st := l.Queue.Stats(); st.Blocked || st.Waiting > 0 && !l.Queue.HeldBack() { // what is held back waits for the end of a trial: it excuses nothing
			return true
		}
	}
	return false
}
