package rig

import (
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Link is a bad one, such as a radio modem's.
type Link struct {
	BytesPerSecond int           // in each direction, shared by all connections
	RoundTrip      time.Duration // half of it in each direction
	// ResetsPerSecond is the chance that a connection is reset within a second in which it sends.
	ResetsPerSecond float64
	// Faster makes everything so many times as fast, so that tests need not take as long; 0: 1. What is measured is the same: it has no unit of time.
	Faster int
	// Behind is how much of what it could have carried the link makes up for: a sleep on a busy machine lasts longer than was asked. 0: nothing.
	Behind time.Duration
}

// Slow puts the proxy on a link.
func (p *Proxy) Slow(l Link) {
	f := max(l.Faster, 1)
	for _, g := range []*gate{&p.requests, &p.answers} {
		g.slow.Store(&radio{bytesPerSecond: l.BytesPerSecond * f, latency: l.RoundTrip / time.Duration(2*f), resets: l.ResetsPerSecond, faster: float64(f), behind: l.Behind / time.Duration(f)})
	}
}

// radio is one direction of a link.
type radio struct {
	bytesPerSecond int
	latency        time.Duration
	behind         time.Duration
	resets, faster float64

	mu   sync.Mutex
	free time.Time // when what was given to it so far has been sent
}

// partBytes is how much goes over a radio at once: two connections share it by turns.
const partBytes = 1460

// part is how much to read at once.
func (r *radio) part(buf []byte) []byte {
	if r == nil {
		return buf
	}
	return buf[:partBytes]
}

// carry returns when n bytes have been sent, and tells whether the connection broke meanwhile.
func (r *radio) carry(n int) (broken bool) {
	takes := time.Duration(n) * time.Second / time.Duration(r.bytesPerSecond)
	r.mu.Lock()
	if idle := time.Now().Add(-r.behind); r.free.Before(idle) {
		r.free = idle
	}
	r.free = r.free.Add(takes)
	until := r.free
	r.mu.Unlock()
	time.Sleep(time.Until(until))
	return rand.Float64() > math.Pow(1-r.resets, takes.Seconds()*r.faster)
}

// later writes to a connection what has been sent, when it has arrived. One goroutine at a time writes, in order; it ends with what it has.
type later struct {
	queue chan lateWrite
	wg    sync.WaitGroup
}

type lateWrite struct {
	data []byte
	at   time.Time
}

// underWay bounds the parts between sending and arrival: more than a latency's worth of any link here.
const underWay = 4096

func (l *later) write(to net.Conn, b []byte, latency time.Duration) {
	if l.queue == nil {
		queue := make(chan lateWrite, underWay)
		l.queue = queue
		l.wg.Go(func() {
			for w := range queue {
				time.Sleep(time.Until(w.at))
				_, _ = to.Write(w.data) // an error shows at the next read
			}
		})
	}
	l.queue <- lateWrite{append([]byte(nil), b...), time.Now().Add(latency)}
}

// wait returns when everything has arrived. Repeating it is harmless.
func (l *later) wait() {
	if l.queue != nil {
		close(l.queue)
		l.queue = nil
	}
	l.wg.Wait()
}
