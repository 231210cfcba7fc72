package outbox

// Withhold keeps what comes from now on back until a checkpoint that covers it is released, in every mode: for results that a replay would not make
// again. It holds as long as the Outbox is open.
func (o *Outbox) Withhold() {
	for _, s := range o.sorted() {
		s.mu.Lock()
		s.withheld, s.withheldAt = true, s.last()
		s.mu.Unlock()
	}
}
