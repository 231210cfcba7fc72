package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
)

// job is an order that the labourer has, or has had.
type job struct {
	*order
	trust *signed.Trust // a copy of its own
	again bool          // this process has given it to the labourer before
	took  bool          // the upgrader has it now
	out   Outcome
}

// labour carries out one job after the other until ctx ends.
func (c *Channel) labour(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-c.work:
			j.out = c.carryOut(ctx, j)
			select {
			case c.done <- j:
			case <-ctx.Done():
				return
			}
		}
	}
}

// carryOut does what an order says, or asks what became of it.
func (c *Channel) carryOut(ctx context.Context, j *job) Outcome {
	o := &Order{Command: *j.Command, Scope: j.Scope, Since: j.Since, Before: !j.here}
	if o.Do == document.DoUpgrade {
		return c.upgrade(ctx, j, o)
	}
	if j.again || o.Before && !Repeats(&o.Command) {
		return c.Acts.Resume(ctx, o)
	}
	return c.Acts.Do(ctx, o)
}

// upgrade hands the release of a command to the upgrader, unless it has it.
func (c *Channel) upgrade(ctx context.Context, j *job, o *Order) Outcome {
	if out, knows := c.Acts.Upgraded(o); knows {
		j.took = true
		return out
	}
	if j.Handed {
		return Outcome{Result: document.ResultFailed, Detail: "another upgrade was asked for on the device before it was known how this one had ended"}
	}
	read, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, envelope, err := c.Depot.Release(read, j.trust, o.Release)
	if err == nil {
		err = c.Acts.Upgrade(ctx, &Handover{Scope: o.Scope, Serial: o.Serial, Since: o.Since, Command: o.ID, Policy: *o.Policy, ExpiresMs: o.ExpiresMs, SHA256: o.Release, Release: r, Envelope: envelope})
	} else if reasonOf(err) == "" && !errors.Is(err, bucket.ErrNotFound) { // the store does not answer
		err = errors.Join(ErrLater, err)
	}
	switch {
	case err == nil:
		j.took = true
		return Outcome{}
	case errors.Is(err, ErrLater):
		return Outcome{}
	}
	return Outcome{Result: document.ResultRefused, Detail: err.Error()}
}

// begin takes up what is to be done next, when nothing is being done.
func (c *Channel) begin(ctx context.Context) {
	for !c.busy && ctx.Err() == nil {
		o, err := c.pick()
		if c.failing("begin", err) {
			c.log.Error("command is not begun", "error", err)
		}
		if err != nil {
			return
		}
		if o == nil {
			return
		}
		trust, err := signed.NewTrust(c.trust.Envelope())
		if err != nil {
			panic("BUG: " + err.Error()) // it was verified before
		}
		_, again := c.asked[o]
		c.asked[o] = time.Now()
		c.busy = true
		select {
		case c.work <- &job{order: o, trust: trust, again: again}:
		case <-ctx.Done():
		}
	}
}

// pick gives an order to carry out, or to ask about; nil: there is none. A new one is durable before it is given.
func (c *Channel) pick() (*order, error) {
	leaving := false
	for _, o := range c.ledger.Orders {
		if o.Ended {
			if err := c.settle(o); err != nil {
				return nil, err
			}
			continue
		}
		at, asked := c.asked[o]
		if o.told == nil && !o.here && !asked { // a crash may have come between the result and the mark
			if _, err := disk.ReadFile(c.fs, c.resultPath(o)); err == nil {
				if err := c.mark(o); err != nil {
					return nil, err
				}
				continue
			}
		}
		if o.told != nil {
			if err := c.conclude(o, *o.told); err != nil {
				return nil, err
			}
			continue
		}
		if !asked || time.Since(at) >= lookEvery {
			return o, nil
		}
		leaving = leaving || o.Do == document.DoRestart
	}
	if leaving { // what comes behind a restart is done behind it
		return nil, nil
	}
	for _, scope := range []string{c.channelScope(), c.deviceScope()} {
		for {
			one := c.nextOf(scope)
			if one == nil {
				break
			}
			if one.Do == document.DoUpgrade && c.upgrading() { // one at a time: how the last one ended must be known
				break
			}
			if o, err := c.take(scope, one); o != nil || err != nil {
				return o, err
			}
		}
	}
	return nil, nil
}

// upgrading tells that a command asked for an upgrade whose end is not known.
func (c *Channel) upgrading() bool {
	return slices.ContainsFunc(c.ledger.Orders, func(o *order) bool { return !o.Ended && o.Do == document.DoUpgrade })
}

// nextOf is the first command of a scope that was not taken up.
func (c *Channel) nextOf(scope string) *document.Command {
	list := c.lists[scope]
	if list == nil {
		return nil
	}
	i := slices.IndexFunc(list.List, func(one document.Command) bool { return one.Serial > c.ledger.Scopes[scope].Done })
	if i < 0 {
		return nil
	}
	return &list.List[i]
}

// take takes a command up: durably, before anything is done. nil: it is not to be carried out.
func (c *Channel) take(scope string, one *document.Command) (*order, error) {
	f := c.ledger.Scopes[scope]
	o := &order{Scope: scope, Since: f.Since, Serial: one.Serial, ID: one.ID, Do: one.Do, SHA256: commandDigest(one), Command: one, here: true}
	was := f.Done
	f.Done = one.Serial
	c.ledger.Scopes[scope] = f
	ms, trusted := c.Clock.Now()
	switch {
	case !one.Audience.Includes(c.Gateway, c.Board) && !c.faults.anyAudience:
		if scope == c.channelScope() { // each gateway that it is not for would say so
			return nil, nil // what was not done needs no mark: behind a crash it is passed over once more
		}
		return nil, c.enter(o, was, Outcome{Result: document.ResultNotHere, Detail: fmt.Sprintf("this gateway is %s, on the board %q", c.Gateway, c.Board)})
	case one.ExpiresMs != 0 && trusted && ms > one.ExpiresMs:
		return nil, c.enter(o, was, Outcome{Result: document.ResultExpired, Detail: "it was to be begun before " + time.UnixMilli(one.ExpiresMs).UTC().Format(time.RFC3339)})
	}
	return o, c.enter(o, was, Outcome{})
}

// enter makes an order durable, with its result if it has one. When it cannot, all is as it was.
func (c *Channel) enter(o *order, done uint64, out Outcome) error {
	before := slices.Clone(c.ledger.Orders)
	c.ledger.Orders = append(c.ledger.Orders, o)
	gone := c.ledger.trim(o.Scope)
	err := c.inscribe(o, out)
	if err != nil && !o.Ended {
		c.ledger.Orders = before
		f := c.ledger.Scopes[o.Scope]
		f.Done = done
		c.ledger.Scopes[o.Scope] = f
		return err
	}
	c.forget(gone)
	return err
}

// inscribe writes what enter has noted.
func (c *Channel) inscribe(o *order, out Outcome) error {
	if out.Result != "" {
		return c.conclude(o, out)
	}
	c.log.Info("command begun", "scope", o.Scope, "serial", o.Serial, "command", o.ID, "do", o.Do)
	if c.faults.actFirst {
		return nil
	}
	c.hook("begin-before")
	if err := c.save(); err != nil {
		return err
	}
	c.hook("begin-after")
	return nil
}

// ended takes what the labourer brings back.
func (c *Channel) ended(ctx context.Context, j *job) {
	c.busy = false
	if j.took && !j.Handed && j.out.Result == "" {
		j.Handed = true
		if err := c.save(); err != nil {
			j.Handed = false
		}
		c.hook("handed")
	}
	if j.out.Result == "" || ctx.Err() != nil { // it is asked for again; what the end of the process cut short, the next one sees to
		return
	}
	c.hook("ended")
	if err := c.conclude(j.order, j.out); err != nil {
		c.log.Error("result of a command is not durable; it is tried again", "command", j.ID, "error", err)
		j.order.told = &j.out
	}
}

// conclude makes a result durable, signed by the key that this gateway has then, and the order ended.
func (c *Channel) conclude(o *order, out Outcome) error {
	ms, _ := c.Clock.Now()
	body, err := c.seal(signed.TypeResult, &document.Result{Gateway: c.Gateway, Scope: o.Scope, Serial: o.Serial, ID: o.ID, Do: o.Do, Result: out.Result, Detail: out.Detail, AtMs: ms, Files: out.Files})
	if err != nil {
		return err
	}
	if err := c.fs.MkdirAll(c.dir + "/" + resultDir); err != nil {
		return err
	}
	c.hook("result-before")
	if err := disk.WriteFileAtomic(c.fs, c.resultPath(o), body); err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	c.hook("result-after")
	if err := c.mark(o); err != nil {
		return err
	}
	delete(c.asked, o)
	c.mu.Lock()
	c.count.commands[out.Result]++
	c.mu.Unlock()
	c.log.Info("command ended", "scope", o.Scope, "serial", o.Serial, "command", o.ID, "do", o.Do, "result", out.Result, "detail", document.Clean(out.Detail, 512))
	return nil
}

// mark makes an order ended whose result is durable, and does what follows.
func (c *Channel) mark(o *order) error {
	command, told := o.Command, o.told
	o.Ended, o.Command, o.Settled, o.told = true, nil, o.Do != document.DoRotateKey, nil
	if err := c.save(); err != nil {
		o.Ended, o.Command, o.told = false, command, told // it has ended, and nobody is to be asked again how
		return err
	}
	c.hook("end-after")
	return c.settle(o)
}

// settle does what follows a durable result.
func (c *Channel) settle(o *order) error {
	if o.Settled {
		return nil
	}
	if err := c.Acts.Settled(&Order{Command: document.Command{Serial: o.Serial, ID: o.ID, Do: o.Do}, Scope: o.Scope, Since: o.Since}); err != nil {
		return fmt.Errorf("command %s: what follows its result: %w", o.ID, err)
	}
	c.hook("settled")
	o.Settled = true
	return c.save()
}

// seal signs what this gateway says.
func (c *Channel) seal(typ string, d interface{ Encode() ([]byte, error) }) ([]byte, error) {
	payload, err := d.Encode()
	if err != nil {
		return nil, err
	}
	key, err := c.Key()
	if err != nil {
		return nil, fmt.Errorf("this gateway's key: %w", err)
	}
	e, err := signed.Seal(context.Background(), typ, payload, key)
	if err != nil {
		return nil, err
	}
	return e.Bytes(), nil
}

// resultOf is the result of an order that has ended; there: the store has it already. One that the disk has lost must keep neither the others nor the reports of this gateway back: then the order was carried out, and nobody knows any more
// what came of it.
func (c *Channel) resultOf(ctx context.Context, o *order) (body []byte, there bool, err error) {
	body, err = disk.ReadFile(c.fs, c.resultPath(o))
	if err == nil {
		_, err = signed.Parse(body)
	}
	if err == nil || c.faults.resultsStay {
		return body, false, err
	}
	lost := err
	_, _, err = c.get(ctx, depot.Result(c.Gateway, o.Scope, o.Since, o.Serial), "")
	switch {
	case err == nil || errors.Is(err, bucket.ErrTooLarge):
		return nil, true, nil
	case !errors.Is(err, bucket.ErrNotFound):
		return nil, false, fmt.Errorf("look for the result of %s: %w", o.ID, err)
	}
	c.log.Error("result of a command was lost on this device's disk", "command", o.ID, "error", lost)
	ms, _ := c.Clock.Now()
	body, err = c.seal(signed.TypeResult, &document.Result{Gateway: c.Gateway, Scope: o.Scope, Serial: o.Serial, ID: o.ID, Do: o.Do, Result: document.ResultFailed, AtMs: ms,
		Detail: "it was carried out, and what came of it was lost on this device's disk"})
	return body, false, err
}

// sendResults puts what came of commands into the store. The order is marked behind it: a crash sends it once more.
func (c *Channel) sendResults(ctx context.Context) error {
	sent := false
	for _, o := range c.ledger.Orders {
		if !o.Ended || o.Sent {
			continue
		}
		body, there, err := c.resultOf(ctx, o)
		if err != nil {
			return err
		}
		if there {
			o.Sent, sent = true, true
			continue
		}
		put, cancel := context.WithTimeout(ctx, c.Timeout)
		err = c.Depot.Bucket.Put(put, depot.Result(c.Gateway, o.Scope, o.Since, o.Serial), body)
		cancel()
		if err != nil {
			return fmt.Errorf("send the result of %s: %w", o.ID, err)
		}
		o.Sent, sent = true, true
	}
	if !sent {
		return nil
	}
	c.hook("sent")
	return c.save()
}
