package join

// The mistakes that tests plant.

// PlantForgottenPartners makes the join not write down that a row had a partner.
func (j *Interval) PlantForgottenPartners() { j.store.fault.forgetsPartners = true }

// PlantExclusive takes the farthest partner out.
func (j *Interval) PlantExclusive() { j.store.fault.exclusive = true }

// PlantEarly lets rows go one instant too soon.
func (j *Interval) PlantEarly() { j.store.fault.early = true }

// PlantUnsorted takes partners in the order of arrival.
func (j *Interval) PlantUnsorted() { j.store.fault.unsorted = true }

// PlantUnsorted takes rows in the order of arrival.
func (j *Windowed) PlantUnsorted() { j.store.fault.unsorted = true }

// PlantForgottenStarts makes the join forget, at a restore, which window of a key is next.
func (j *Windowed) PlantForgottenStarts() { j.forgetsNext = true }

// PlantStale keeps the first right row of a key.
func (j *Latest) PlantStale() { j.stale = true }

// PlantForgottenDue makes a join on flash forget, at a restore, when its rows are due.
func (j *Interval) PlantForgottenDue() { j.store.fault.forgetsDue = true }

// PlantForgottenFarPartners makes a join on flash not write down that a row had a partner.
func (j *Interval) PlantForgottenFarPartners() { j.store.fault.forgetsFar = true }

// PlantForgottenSpans makes a session join on flash keep the sessions that became one.
func (j *Windowed) PlantForgottenSpans() { j.store.fault.forgetsSpans = true }
