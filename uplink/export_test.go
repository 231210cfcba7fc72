package uplink

// HoldPace plants a fault: batches stay as large as configured, whatever the link does.
func (s *Sender) HoldPace() { s.pace.held = true }
