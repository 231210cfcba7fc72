package api

// FlashStatus is what is known of the storage of state_dir, as of the last minute.
type FlashStatus struct {
	Disk     string   `json:"disk"` // names below /sys/block, "" not known
	Kind     string   `json:"kind,omitempty"`
	Through  []string `json:"through,omitempty"`   // what stands between state_dir and the disk
	NotKnown string   `json:"not_known,omitempty"` // why there is no disk
	Sync     string   `json:"fsync,omitempty"`     // what the fsync at the start has shown
	Error    string   `json:"error,omitempty"`     // why the counters are not read now

	Wear      string  `json:"wear"`
	UsedLeast float64 `json:"used_least"` // share of the life, -1 not known
	UsedMost  float64 `json:"used_most"`
	Spare     uint8   `json:"spare"` // 0 not known, 1 normal, 2 warning, 3 urgent

	DaySeconds float64 `json:"day_seconds"` // of the day under way that weir was running
	DayBytes   uint64  `json:"day_bytes"`   // that reached the disk in it, whoever wrote them
	DayOwn     uint64  `json:"day_own_bytes"`
	OwnKnown   bool    `json:"own_known"`
	TotalBytes uint64  `json:"total_bytes"` // since this disk is measured
	TotalOwn   uint64  `json:"total_own_bytes"`

	PerDay          float64 `json:"bytes_per_day"` // -1: not known before an hour
	MeasuredSeconds float64 `json:"measured_seconds"`
	TBW             int64   `json:"tbw,omitempty"`
	Budget          float64 `json:"budget_bytes,omitempty"` // of a day; 0: there is none
	Years           float64 `json:"years_left"`             // -1 not known
	YearsWanted     int     `json:"years_wanted"`

	Governor bool   `json:"governor"`
	Linger   Paced  `json:"linger"`
	Interval Paced  `json:"checkpoint_interval"`
	Why      string `json:"why,omitempty"`   // it is stretched
	Short    string `json:"short,omitempty"` // why the budget is passed all the same

	Findings []string `json:"findings,omitempty"`
}

// Paced is a setting as configured and as it is now, in seconds.
type Paced struct {
	Base float64 `json:"configured"`
	Now  float64 `json:"now"`
}

// Stretched tells that it is longer than configured.
func (p Paced) Stretched() bool { return p.Now > p.Base }
