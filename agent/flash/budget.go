package flash

// Endurance is what the operator says of the disk.
type Endurance struct {
	TBW         int64 // bytes that it endures; 0: not known
	Years       int   // that it is to last
	DailyBudget int64 // 0: from TBW and Years
}

// used is the share of the life that is gone: what the disk says, at its upper end, else what was seen to be written, which is too little when the disk
// is older than the record.
func (e Endurance) used(w Wear, seen uint64) float64 {
	if w.Known {
		return w.Most
	}
	if e.TBW == 0 {
		return 0
	}
	return min(float64(seen)/float64(e.TBW), 1)
}

// YearsLeft is TBW × (1 − used) / (bytes per day × 365); ok is false when something of it is not known.
func (e Endurance) YearsLeft(u Usage) (years float64, ok bool) {
	if e.TBW == 0 || u.PerDay < 0 {
		return 0, false
	}
	left := float64(e.TBW) * (1 - e.used(u.Wear, u.Total.Device))
	return min(left/(max(u.PerDay, 1)*365), yearsMost), true
}

// yearsMost is told of a disk that hardly anything is written to: no flash keeps its charge for so long.
const yearsMost = 100

// Budget is how many bytes a day may have; 0: there is none.
func (e Endurance) Budget(u Usage) float64 {
	if e.DailyBudget > 0 {
		return float64(e.DailyBudget)
	}
	if e.TBW == 0 || e.Years == 0 {
		return 0
	}
	left := float64(e.TBW) * (1 - e.used(u.Wear, u.Total.Device))
	return max(left/(float64(e.Years)*365), leastBudget)
}

// leastBudget of a disk whose life is over: the governor then does what it may, and no more is to be had.
const leastBudget = 1 << 20
