package mqtt

import "time"

// day is the period of MaxBytesPerDay, counted from the agent's start by its own clock: gateways have no reliable date.
const day = 24 * time.Hour

// limits holds the rate and the quota of one source. The tap's reader owns it.
type limits struct {
	rate     float64 // records per second
	burst    float64
	tokens   float64
	filledAt time.Time

	bytesPerDay int64
	used        int64
	dayFrom     time.Time
	warned      time.Time // the day whose end of quota was logged
}

func newLimits(c SourceConfig, now time.Time) limits {
	burst := max(c.MaxRate, 1)
	return limits{rate: c.MaxRate, burst: burst, tokens: burst, filledAt: now, bytesPerDay: c.MaxBytesPerDay, dayFrom: now}
}

func (l *limits) any() bool { return l.rate > 0 || l.bytesPerDay > 0 }

// take uses one token and returns how long to wait before the record is taken.
func (l *limits) take(now time.Time) time.Duration {
	l.tokens = min(l.burst, l.tokens+float64(now.Sub(l.filledAt).Seconds()*l.rate))
	l.filledAt = now
	l.tokens--
	if l.tokens >= 0 {
		return 0
	}
	return time.Duration(-l.tokens / l.rate * float64(time.Second))
}

// spend takes n bytes from today's quota; false when they are not there.
func (l *limits) spend(n int, now time.Time) bool {
	if now.Sub(l.dayFrom) >= day {
		l.dayFrom = l.dayFrom.Add(now.Sub(l.dayFrom).Truncate(day))
		l.used = 0
	}
	if l.used+int64(n) > l.bytesPerDay {
		return false
	}
	l.used += int64(n)
	return true
}
