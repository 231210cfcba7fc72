package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A broker with a full queue drops, and MQTT 3.1.1 has no way to say so. Some count it on a topic: mosquitto on
// $SYS/broker/publish/messages/dropped, for all clients together, since its start. The watch reads that on a connection of its own, with a clean
// session: what it does or fails to do never touches the session of the sources.

// dropCount turns readings of the broker's counter into what was dropped between them.
type dropCount struct {
	last  uint64
	known bool
}

// take gives what was dropped since the reading before. The first reading is where counting begins: its number is the broker's whole life. One below the last is of a
// broker that was started again.
func (d *dropCount) take(n uint64) (more uint64) {
	switch {
	case !d.known:
	case n < d.last:
		more = n
	default:
		more = n - d.last
	}
	d.last, d.known = n, true
	return more
}

// dropWatch is what Stats shows of it.
type dropWatch struct {
	mu      sync.Mutex
	count   dropCount
	problem string // why the count is not known
	dropped uint64
	away    uint64 // of these, while the session was away or held back
	before  uint64 // the first reading
	untold  uint64
	toldAt  time.Time
	lost    bool          // the connection was lost; nothing was read since
	lostAt  time.Duration // since the session was born
}

// dropPatience is what the watch may assume of a broker's pace.
type dropPatience struct {
	silence time.Duration // how long it may take for its first word
	lag     time.Duration // how much older than a reading what it counts may be
}

// mosquitto keeps the topic retained and writes it each 10 s when it has changed.
var defaultDropPatience = dropPatience{silence: time.Minute, lag: 30 * time.Second}

// dropWarnEvery bounds the log: one line at first, then at most one in this time, with the sum.
const dropWarnEvery = time.Hour

var (
	errNoCount  = errors.New("nothing came on it: does the broker publish it, and may this user read it?")
	errNotCount = errors.New("it is no whole number")
)

// watchDrops reads the counter until ctx ends. Run waits for it.
func (s *Session) watchDrops(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.readDrops(ctx)
		s.drops.mu.Lock()
		if !s.drops.lost { // the next reading is of all that happens from here on
			s.drops.lost, s.drops.lostAt = true, time.Since(s.born)
		}
		s.drops.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		s.dropProblem(err)
		select {
		case <-time.After(s.config.ReconnectMax):
		case <-ctx.Done():
		}
	}
}

// dropProblem keeps why the count is not known, and logs what is new.
func (s *Session) dropProblem(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("read %s: %v", s.config.DroppedTopic, err)
	}
	s.drops.mu.Lock()
	was := s.drops.problem
	s.drops.problem = text
	s.drops.mu.Unlock()
	if text != "" && was == "" {
		s.log.Warn("broker's count of dropped messages is not known", "err", text)
	}
}

// readDrops is one connection, until it is lost.
func (s *Session) readDrops(ctx context.Context) error {
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	l, err := listenTo(ctx, &s.config, "-drops", s.config.DroppedTopic, 0, func(payload []byte) {
		s.dropReading(string(payload))
		once()
	})
	if err != nil {
		return err
	}
	defer l.close()
	silence := time.NewTimer(s.patience.silence)
	defer silence.Stop()
	for {
		select {
		case <-first:
			first = nil
			silence.Stop()
		case <-silence.C:
			s.dropProblem(errNoCount) // and listen on
		case <-l.lost:
			return errConnectionLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// holdsBack notes that the broker has to keep messages for this session now.
func (s *Session) holdsBack() { s.heldAt.Store(int64(time.Since(s.born))) }

// dropReading takes one reading. The library's goroutine calls it.
func (s *Session) dropReading(text string) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		s.dropProblem(fmt.Errorf("%.40q: %w", text, errNotCount))
		return
	}
	s.dropProblem(nil)
	ready, now, held := s.phase() == phaseReady, time.Since(s.born), time.Duration(s.heldAt.Load())
	d := &s.drops
	d.mu.Lock()
	from := now
	if d.lost {
		from, d.lost = d.lostAt, false
	}
	away := !ready || held >= from-s.patience.lag
	if !d.count.known {
		d.before = n
	}
	more := d.count.take(n)
	d.dropped += more
	if away {
		d.away += more
	}
	d.untold += more
	untold := d.untold
	tell := untold > 0 && (d.toldAt.IsZero() || time.Since(d.toldAt) >= dropWarnEvery)
	if tell {
		d.untold, d.toldAt = 0, time.Now()
	}
	d.mu.Unlock()
	if tell {
		s.log.Warn("broker dropped messages of its clients; raise its max_queued_messages", "messages", untold, "topic", s.config.DroppedTopic, "session_was_away", away)
	}
}
