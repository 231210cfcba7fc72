package uplink

// Announcer is implemented by endpoints that learn limits of their upstream when they connect.
type Announcer interface {
	// Announced names the limits that hold on the present connection, or held on the last one; "" when there are none.
	Announced() string
}

// note keeps what upstream says of its limits where the status finds it, and logs it once.
func (s *Sender) note() {
	a, ok := s.o.Endpoint.(Announcer)
	if !ok {
		return
	}
	if text := a.Announced(); text != s.metrics.Announced() {
		s.metrics.announced.Store(&text)
		s.log.Info("upstream announces its limits", "limits", text)
	}
}
