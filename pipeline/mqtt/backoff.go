package mqtt

import "time"

const (
	// shortLife: a connection that ends so soon after CONNACK looks like a takeover.
	shortLife = 2 * time.Second
	// calmLife: after so long the next loss is a new affair.
	calmLife = 10 * time.Second
	// calmAlarm: so long must a connection live to end a takeover alarm.
	calmAlarm = 5 * time.Minute
	// A broker that takes a client id over closes cleanly. Three such losses raise the alarm; resets, which lines do as
	// well, count a third.
	weightClean = 3
	weightReset = 1
	alarmAt     = 9
	// attemptsProgress caps the back-off of a line that keeps breaking while messages still get through.
	attemptsProgress = 3
)

// ending is how a connection ended.
type ending struct {
	connected bool          // CONNACK came
	lived     time.Duration // since CONNACK
	clean     bool          // the broker closed it: EOF
	progress  bool          // a message was journaled
}

// flaps remembers the endings in a row. A value: after gives a new one.
type flaps struct {
	attempts int
	score    int
	alarm    bool // another client seems to use the client id
}

// after takes one more ending.
func (f flaps) after(e ending) flaps {
	switch {
	case !e.connected:
		f.attempts++
	case f.alarm && e.lived >= calmAlarm, !f.alarm && e.lived >= calmLife:
		return flaps{attempts: 1}
	case e.lived < shortLife:
		f.attempts++
		if e.clean {
			f.score += weightClean
		} else {
			f.score += weightReset
		}
		f.alarm = f.alarm || f.score >= alarmAt
	default:
		f.attempts++
		f.score = 0
	}
	if e.connected && e.progress && !e.clean {
		f.attempts = min(f.attempts, attemptsProgress)
	}
	return f
}

// wait is the time until the next connect. random is in [0, 1).
func (f flaps) wait(minimum, maximum, takeover time.Duration, random float64) time.Duration {
	if f.alarm {
		return takeover*2/3 + time.Duration(random*float64(takeover/3))
	}
	d := minimum
	for i := 1; i < f.attempts && d < maximum; i++ {
		d *= 2
	}
	d = min(d, maximum)
	return d/2 + time.Duration(random*float64(d/2))
}
