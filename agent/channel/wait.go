package channel

import "time"

const (
	// lookEvery is how often it is looked whether anything changed on this side.
	lookEvery = 15 * time.Second
	// reportApart is the least time between two reports, reportEvery the longest.
	reportApart = time.Minute
	reportEvery = 24 * time.Hour
)
