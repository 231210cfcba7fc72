package window

// PlantUnsorted makes windows fire their keys in another order than that of the key bytes.
func (t *Tumbling) PlantUnsorted() { t.fault.unsorted = true }

// PlantSumWrap makes sums of integers wrap.
func (t *Tumbling) PlantSumWrap() { t.acc.fault.sumWraps = true }

// PlantStale makes late rows leave the partial contents above their panes as they were.
func (h *Hopping) PlantStale() { h.fault.stale = true }

// PlantStaleLinks makes late rows leave the links that are kept of their keys as they were.
func (h *Hopping) PlantStaleLinks() { h.fault.staleLinks = true }

// PlantUnmerged makes sessions that were joined stay beside the one that came of them.
func (s *Session) PlantUnmerged() { s.fault.unmerged = true }

// PlantBareWall makes processing time step back with the wall clock.
func (p *Processing) PlantBareWall() { p.clock.bare = true }

// PlantUnasked makes the timer of a window that has gone by its TTL move the clock.
func (p *Processing) PlantUnasked() { p.unasked = true }

// PlantAgain makes the watermark that is repeated after a restart fire windows again.
func (h *Hopping) PlantAgain() { h.fault.again = true }

// Merges counts the partial contents merged so far.
func (h *Hopping) Merges() int { return h.merges }

// PlantKept leaves windows that their TTL left nothing in where they are.
func (t *Tumbling) PlantKept() { t.fault.kept = true }
