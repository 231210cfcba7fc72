package uplink

// HoldPace plants a fault: batches stay as large as configured, whatever the link does.
func (s *Sender) HoldPace() { s.pace.held = true }

// AskForEver plants a fault: what upstream took and does not confirm is asked for without end.
func (s *Sender) AskForEver() { s.patient = true }
