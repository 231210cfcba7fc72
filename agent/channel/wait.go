package channel

import "time"

const (
	// jitter is how far a wait is spread, so that gateways that were started together do not stay together.
	jitter = 0.2
	// bellSpares is how many times rarer it is looked with a doorbell that is connected.
	bellSpares = 12
	// ringApart is the least time between two looks that the doorbell leads to, and ringSpread how long a gateway waits at most behind a ring: all of a channel hear it at once.
	ringApart  = 10 * time.Second
	ringSpread = 10 * time.Second
	// failWait is the wait behind the first failure; each one in a row doubles it.
	failWait = 30 * time.Second
	// failMost bounds that, as a multiple of the setting.
	failMost = 4
	// lookEvery is how often it is looked whether anything changed on this side.
	lookEvery = 15 * time.Second
	// reportApart is the least time between two reports, reportEvery the longest.
	reportApart = time.Minute
	reportEvery = 24 * time.Hour
)

// spread makes a wait up to a fifth shorter or longer. random is in [0, 1).
func spread(d time.Duration, random float64) time.Duration {
	return d + time.Duration(float64(d)*jitter*(2*random-1))
}

// pollWait is how long to wait for the next look: behind fails failures in a row, with a doorbell that is heard or without.
func pollWait(every time.Duration, heard bool, fails int, random float64) time.Duration {
	switch {
	case fails > 0:
		d := failWait
		for i := 1; i < fails && d < failMost*every; i++ {
			d *= 2
		}
		return spread(min(d, max(failMost*every, failWait)), random)
	case heard:
		return spread(every*bellSpares, random)
	}
	return spread(every, random)
}

// ringWait is how long to wait behind a ring, the last look having begun so long ago.
func ringWait(since time.Duration, random float64) time.Duration {
	return max(ringApart-since, 0) + time.Duration(float64(ringSpread)*random)
}
