package uplinktest

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/uplink"
)

// Of the default timeout of 30 s, ten minutes have twenty. Here a request may take 200 times less, while nothing answers: time enough to arrive. The first few do so;
// those behind them repeat it, and have less.
const (
	silenceTimeouts = 20
	silenceFirst    = 4
	silenceTimeout  = 30 * time.Second / 200
)

func rows(first, last uint64) (all []string) {
	for seq := first; seq <= last; seq++ {
		all = append(all, row(seq))
	}
	return all
}

// silence: for ten minutes, by the measure of timeouts, requests arrive and no answer comes back.
func (s *suite) silence(p plant) error {
	line, connect := s.way()
	q := NewQueue(1, 0)
	q.Add(rows(1, 20)...)
	hurry := &Impatience{}
	d, err := s.start(q, p(hurry.Of(connect(s, "a"))), one)
	if err != nil {
		return err
	}
	defer d.stop() //nolint:errcheck // it is cancelled
	if err := d.confirmed(20); err != nil {
		return err
	}
	before := d.failures()
	line.Mute(true)
	hurry.Set(silenceTimeout, Always)
	q.Add(rows(21, 60)...)
	err = d.until("time out", func() bool { return d.failures() >= before+silenceFirst || q.Confirmed() > 20 })
	if err == nil {
		hurry.Set(silenceTimeout/5, Always)
		err = d.until("time out", func() bool { return d.failures() >= before+silenceTimeouts || q.Confirmed() > 20 })
	}
	line.Mute(false)
	hurry.Set(0, 0)
	if err != nil {
		return err
	}
	if c := q.Confirmed(); c != 20 {
		return fmt.Errorf("confirmed up to %d without an answer", c)
	}
	q.Add(rows(61, 80)...)
	if err := d.confirmed(80); err != nil {
		return err
	}
	_ = d.stop()
	return s.holds(80)
}

// window: the answer to a batch is lost, an outage follows that is longer than what the far end remembers of requests, and the results
// come again from another process, with other cuts.
func (s *suite) window(p plant) error {
	line, connect := s.way()
	e := p(connect(s, "a"))
	if _, err := e.Open(s.Context(), Stream(), one, 1); err != nil {
		return err
	}
	if _, err := e.Send(s.Context(), MakeBatch(Stream(), one, 1, 1, 4)); err != nil {
		return err
	}
	line.Mute(true)
	ctx, cancel := context.WithTimeout(s.Context(), silenceTimeout)
	_, err := e.Send(ctx, MakeBatch(Stream(), one, 1, 5, 9))
	cancel()
	_ = e.Close()
	if err == nil {
		return fmt.Errorf("a batch whose answer was lost counts as sent")
	}
	time.Sleep(s.o.Window)
	line.Mute(false)
	e = p(connect(s, "a"))
	defer e.Close()
	prog, err := e.Open(s.Context(), Stream(), one, 1)
	if err != nil {
		return err
	}
	if !s.o.NoProgress && (prog.Seq < 4 || prog.Seq > 9) {
		return fmt.Errorf("run ends at %d behind the outage, want 4 to 9", prog.Seq)
	}
	for _, cut := range [][2]uint64{{3, 7}, {8, 12}} {
		if _, err := e.Send(s.Context(), MakeBatch(Stream(), one, 1, cut[0], cut[1])); err != nil {
			return err
		}
	}
	return s.holds(12)
}

// strandedFailures is how many timeouts a dead connection may cost: one for what was under way, one for what asks about it.
const strandedFailures = 2

// stranded: the connection is dead and says nothing, as behind a router that forgot it; a new one would do. The next timeout must lead to that.
func (s *suite) stranded(p plant) error {
	line, connect := s.way()
	q := NewQueue(1, 0)
	q.Add(rows(1, 10)...)
	hurry := &Impatience{}
	d, err := s.start(q, p(hurry.Of(connect(s, "a"))), one)
	if err != nil {
		return err
	}
	defer d.stop() //nolint:errcheck // it is cancelled
	if err := d.confirmed(10); err != nil {
		return err
	}
	before := d.failures()
	line.Strand()
	hurry.Set(4*silenceTimeout, 1) // what is under way is lost; what follows has time, however slow the machine is
	q.Add(rows(11, 30)...)
	if err := d.confirmed(30); err != nil {
		return err
	}
	if n := d.failures() - before; n > strandedFailures {
		return fmt.Errorf("%d timeouts on a dead connection, want %d at most", n, strandedFailures)
	}
	_ = d.stop()
	return s.holds(30)
}

// holds compares the far end with the first rows.
func (s *suite) holds(upTo uint64) error { return Exact(s.far.Held(s, Stream()), rows(1, upTo), nil) }

// plant puts a fault before an endpoint; each scenario that takes one must find it.
type plant func(uplink.Endpoint) uplink.Endpoint

// sound plants nothing.
func sound(e uplink.Endpoint) uplink.Endpoint { return e }
