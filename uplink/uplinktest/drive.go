package uplinktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
)

// batchMax is small, so that a few results are several batches.
const batchMax = 7

// newSender makes a sender with small batches and short waits.
func newSender(q *Queue, e uplink.Endpoint, inc uplink.Incarnation, generation uint64, change func(*uplink.Config)) (*uplink.Sender, error) {
	c := uplink.Default()
	c.MaxResults = batchMax
	change(&c)
	return uplink.NewSender(uplink.SenderOptions{Config: c, Stream: Stream(), Generation: generation, Incarnation: inc, Queue: q, Endpoint: e,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
}

// Drive runs a sender with small batches and short waits until the queue is confirmed up to seq. It gives up when nothing more was confirmed for patience.
func Drive(ctx context.Context, q *Queue, e uplink.Endpoint, inc uplink.Incarnation, generation, seq uint64) error {
	snd, err := newSender(q, e, inc, generation, func(c *uplink.Config) {
		c.Backoff = uplink.Backoff{Min: time.Microsecond, Max: 50 * time.Microsecond}
	})
	if err != nil {
		return err
	}
	end, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		last, moved := q.Confirmed(), time.Now()
		for last < seq && end.Err() == nil && time.Since(moved) < patience {
			time.Sleep(200 * time.Microsecond)
			if now := q.Confirmed(); now != last {
				last, moved = now, time.Now()
			}
		}
		stop()
	})
	err = snd.Run(end)
	stop()
	watch.Wait()
	if errors.Is(err, context.Canceled) && q.Confirmed() >= seq {
		return nil
	}
	return fmt.Errorf("sender ended at %d of %d: %w; the last error was %q", q.Confirmed(), seq, err, snd.Metrics().LastError())
}

// driven is a sender at work.
type driven struct {
	*uplink.Sender
	queue  *Queue
	cancel func()
	wait   sync.WaitGroup
	ended  error
	end    uplink.Endpoint
}

// start runs a sender until stop.
func (s *suite) start(q *Queue, e uplink.Endpoint, inc uplink.Incarnation) (*driven, error) {
	snd, err := newSender(q, e, inc, 1, func(c *uplink.Config) {
		c.Timeout, c.Backoff = time.Minute, uplink.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.Context())
	d := &driven{Sender: snd, queue: q, cancel: cancel, end: e}
	d.wait.Go(func() { d.ended = snd.Run(ctx) })
	s.Cleanup(func() { _ = d.stop() }) // also of a test that ends early
	return d, nil
}

// stop ends the sender and gives the error that it ended with. Repeating it is harmless.
func (d *driven) stop() error {
	d.cancel()
	d.wait.Wait()
	_ = d.end.Close()
	return d.ended
}

// failures is how often it tried in vain, so far.
func (d *driven) failures() uint64 { return d.Metrics().Opened.Load() - 1 + d.Metrics().Retried.Load() }

// patience bounds every wait of the suite: the machine may have much else to do, or be slow.
const patience = rig.Patience

// until waits for what a function says; the error has the sender's last one.
func (d *driven) until(what string, f func() bool) error {
	for deadline := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not in %s; confirmed up to %d, last error: %s", what, patience, d.queue.Confirmed(), d.Metrics().LastError())
		}
	}
	return nil
}

func (d *driven) confirmed(seq uint64) error {
	return d.until(fmt.Sprintf("confirm up to %d", seq), func() bool { return d.queue.Confirmed() >= seq })
}
