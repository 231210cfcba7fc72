package snapshot

import "time"

// Phase is where the coordinator stands with the current barrier.
type Phase uint8

const (
	// PhaseIdle: no barrier under way.
	PhaseIdle Phase = iota
	// PhaseAligning: the barrier runs through the tasks; some snapshots are not there yet.
	PhaseAligning
	// PhaseDraining: the checkpoint failed while aligning. The late snapshots must come and be merged back before the next
	// barrier is put in: else a task would freeze again while the aborted changes are missing from its open list, and
	// the next manifest would have a hole (RULES 15).
	PhaseDraining
	// PhaseWriting: outbox, deltas and manifest are being made durable.
	PhaseWriting
	// PhaseFinishing: committed; old checkpoints are pruned and the journal is trimmed.
	PhaseFinishing
)

// State is all that the decision needs. Its zero value, with NextID and LastStart set, is the start.
type State struct {
	Phase     Phase
	ID        uint64    // of the barrier under way
	NextID    uint64    // of the next one
	Started   time.Time // of the barrier under way
	Injecting bool      // Inject has not returned
	Waiting   int       // tasks that did not deliver yet
	Aborting  int       // snapshots that are being merged back
	Cancelled bool      // the writer was told to stop
	Demand    bool      // somebody waits for a barrier that is not put in yet
	Dirty     bool      // the last checkpoint failed: what it held waits
	Failures  int       // consecutive
	LastStart time.Time
	LastEnd   time.Time
	Stopped   bool // ActionStop was given
}

// EventKind is what happened.
type EventKind uint8

const (
	EventWake      EventKind = iota // time or records went on
	EventDemand                     // Trigger was called
	EventInjected                   // Inject returned Err
	EventDelivered                  // a task's snapshot of barrier ID is there
	EventAborted                    // one snapshot is merged back
	EventWritten                    // the writer ended with Err (its parts are committed or merged back); Fatal: ErrStoreFailed
	EventFinished                   // prune and trim are done
)

// Event is one fact. Records is how many journal records were read since the last barrier. Pressed: none were, and the journal has no room
// because of checkpoints that are older than the current one.
type Event struct {
	Pressed bool
	Kind    EventKind
	Now     time.Time
	Records uint64
	Err     error
	Fatal   bool
}

// Action is what the coordinator is to do.
type Action uint8

const (
	ActionInject  Action = iota // put barrier State.ID in
	ActionAnswer                // nothing moved: the current checkpoint answers the waiting Trigger calls
	ActionWrite                 // all snapshots are there: make the checkpoint
	ActionCancel                // end the running Inject or writer
	ActionAbort                 // merge back every snapshot collected so far; each gives EventAborted
	ActionDiscard               // merge back the snapshot just delivered; gives EventAborted
	ActionFinish                // prune, retain, trim
	ActionFailed                // the checkpoint failed: count, answer the waiting Trigger calls
	ActionAlarm                 // failures reached AlarmAfter, or doubled since
	ActionStop                  // end Run with an error
)

// Next decides. It is a pure function; tasks is how many snapshots a barrier gives. The caller runs the actions in order.
// ActionAbort adds the number collected (tasks - Waiting) to Aborting by itself.
func Next(cfg Config, tasks int, s State, ev Event) (State, []Action) {
	var acts []Action
	failed := func(fatal bool) {
		s.Dirty = true
		s.Failures++
		acts = append(acts, ActionFailed)
		if n := s.Failures / cfg.AlarmAfter; s.Failures%cfg.AlarmAfter == 0 && n&(n-1) == 0 {
			acts = append(acts, ActionAlarm)
		}
		if fatal || cfg.TolerableFailures >= 0 && s.Failures > cfg.TolerableFailures {
			s.Stopped = true
			acts = append(acts, ActionStop)
		}
	}
	drain := func() {
		s.Phase = PhaseDraining
		s.Aborting += tasks - s.Waiting
		acts = append(acts, ActionCancel, ActionAbort)
		failed(false)
	}
	switch ev.Kind {
	case EventDemand:
		s.Demand = true
	case EventInjected:
		s.Injecting = false
		if ev.Err != nil {
			if s.Phase == PhaseAligning {
				drain()
			}
			s.Waiting = 0
		}
	case EventDelivered:
		s.Waiting--
		if s.Phase == PhaseDraining {
			s.Aborting++
			acts = append(acts, ActionDiscard)
		}
	case EventAborted:
		s.Aborting--
	case EventWritten:
		s.Phase = PhaseFinishing
		if ev.Err != nil {
			s.Phase, s.LastEnd = PhaseIdle, ev.Now
			failed(ev.Fatal)
		} else {
			s.Dirty, s.Failures = false, 0
			acts = append(acts, ActionFinish)
		}
	case EventFinished:
		s.Phase, s.LastEnd = PhaseIdle, ev.Now
	}
	if s.Stopped {
		return s, acts
	}
	late := ev.Now.Sub(s.Started) >= cfg.Timeout
	switch {
	case s.Phase == PhaseAligning && s.Waiting == 0 && !s.Injecting:
		s.Phase = PhaseWriting
		acts = append(acts, ActionWrite)
	case s.Phase == PhaseAligning && late:
		drain()
	case s.Phase == PhaseWriting && late && !s.Cancelled:
		s.Cancelled = true
		acts = append(acts, ActionCancel)
	case s.Phase == PhaseDraining && s.Waiting == 0 && s.Aborting == 0 && !s.Injecting:
		s.Phase, s.LastEnd = PhaseIdle, ev.Now
	}
	if s.Phase == PhaseIdle && !s.Stopped {
		switch {
		case s.Demand && ev.Records == 0 && !s.Dirty && !ev.Pressed:
			s.Demand = false
			acts = append(acts, ActionAnswer)
		case due(cfg, s, ev):
			s.Phase, s.ID, s.NextID = PhaseAligning, s.NextID, s.NextID+1
			s.Started, s.LastStart = ev.Now, ev.Now
			s.Injecting, s.Waiting, s.Cancelled, s.Demand = true, tasks, false, false
			acts = append(acts, ActionInject)
		}
	}
	return s, acts
}

// due tells whether a barrier is to be put in now.
func due(cfg Config, s State, ev Event) bool {
	if s.Demand {
		return true
	}
	if ev.Records == 0 && !s.Dirty && !ev.Pressed || !s.LastEnd.IsZero() && ev.Now.Sub(s.LastEnd) < cfg.MinPause {
		return false
	}
	if ev.Pressed { // no record will come before the retained ones have moved on
		return true
	}
	byTime := cfg.Interval > 0 && ev.Now.Sub(s.LastStart) >= cfg.Interval
	byCount := cfg.EveryRecords > 0 && ev.Records >= cfg.EveryRecords
	return byTime || byCount
}

// Wake is when Next must be asked again at the latest; zero: only an event can change anything.
func Wake(cfg Config, s State, records uint64) time.Time {
	switch s.Phase {
	case PhaseAligning:
		return s.Started.Add(cfg.Timeout)
	case PhaseWriting:
		if !s.Cancelled {
			return s.Started.Add(cfg.Timeout)
		}
	case PhaseIdle:
		if records == 0 && !s.Dirty {
			return time.Time{}
		}
		pause := s.LastEnd.Add(cfg.MinPause)
		if cfg.EveryRecords > 0 && records >= cfg.EveryRecords {
			return pause
		}
		if cfg.Interval > 0 {
			if t := s.LastStart.Add(cfg.Interval); t.After(pause) {
				return t
			}
			return pause
		}
	}
	return time.Time{}
}
