package window

import (
	"encoding/binary"

	"github.com/weirstream/weir/pipeline"
)

// clock is processing time: the wall clock of the journal's stamps, made to run forwards only. It is a function of the stamps.
//
//   - While the wall clock goes forwards, by running or by a step, processing time is the wall time.
//   - When the wall clock steps back, processing time goes on at half the speed of elapsed time until the wall clock has caught up. So no
//     window opens a second time, none is held open for as long as the step was, and the times are right again after twice the step.
//   - While no window is open it goes back with the wall clock, as far as the last result.
//   - Between two stamps it goes on with elapsed time, at full or half speed.
//
// Whether the wall clock is trusted plays no part: wall time is data.
type clock struct {
	set    bool
	time   int64 // ns since 1970
	at     int64 // elapsed ns
	behind int64 // ns that the wall clock is behind
	bare   bool  // planted fault: it follows the wall clock back
}

// wallMax bounds wall times, in ms, so that ns fit: the year 2262.
const wallMax = 9_200_000_000_000

// tick takes in a stamp.
func (c *clock) tick(now pipeline.Stamp) {
	wall := max(-wallMax, min(wallMax, now.Wall)) * 1e6
	if !c.set {
		c.set, c.time, c.at = true, wall, now.Elapsed
		return
	}
	passed := max(0, now.Elapsed-c.at)
	c.at = max(c.at, now.Elapsed)
	if wall >= c.time || c.bare {
		c.time, c.behind = wall, 0
		return
	}
	c.time += passed / 2
	if wall > c.time {
		c.time = wall
	}
	c.behind = c.time - wall
}

// rest is for a clock that no window waits for: it goes back with the wall clock, but not before what it has been used for, in ms.
func (c *clock) rest(now pipeline.Stamp, used int64) {
	wall := max(-wallMax, min(wallMax, now.Wall)) * 1e6
	c.time = max(wall, used*1e6)
	c.behind = c.time - wall
}

// run goes on to an instant between two stamps.
func (c *clock) run(elapsed int64) {
	if passed := elapsed - c.at; passed > 0 {
		slow := min(passed, 2*c.behind)
		c.time += slow/2 + passed - slow
		c.behind -= slow / 2
		c.at = elapsed
	}
}

// ms is the time in ms.
func (c *clock) ms() int64 { return floorTo(c.time, 1e6, 0) / 1e6 }

// when gives the elapsed time at which a time in ms is reached if nothing steps.
func (c *clock) when(ms int64) int64 {
	if ms > wallMax {
		return pipeline.NoDeadline
	}
	left := ms*1e6 - c.time
	switch {
	case left <= 0:
		return c.at
	case left <= c.behind:
		return c.at + 2*left
	}
	return c.at + left + c.behind
}

const clockBytes = 4 * 8

func (c *clock) bytes(watermark int64) (b [clockBytes]byte) {
	for i, v := range [...]int64{c.time, c.at, c.behind, watermark} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	return b
}

func clockOf(b []byte) (c clock, watermark int64) {
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return clock{set: true, time: at(0), at: at(1), behind: at(2)}, at(3)
}

// sane tells whether a restored clock can have been one.
func (c *clock) sane() bool {
	return c.at >= 0 && c.behind >= 0 && c.time >= -wallMax*1e6 && c.time <= wallMax*1e6
}
