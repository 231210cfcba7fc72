package snapshot

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// The inbox: how other goroutines reach the owner, Run. None of these blocks but Trigger, whose caller wants to wait.

type answer struct {
	c   Checkpoint
	err error
}

// waiter is a call that waits for a checkpoint.
type waiter struct {
	to   chan answer // holds one
	hold bool        // the checkpoint that it gets is held until the waiter is released
}

// message is what other goroutines tell the owner. Exactly one of the fields next to kind is used.
type message struct {
	kind EventKind
	snap pipeline.TaskSnapshot
	wait *waiter
	err  error
	done *written
	base *BaseRef
	also messageAlso
	from uint64 // alsoKeepFrom
}

type messageAlso uint8

const (
	alsoNothing  messageAlso = iota
	alsoRebased              // a merge ended: base or err
	alsoKeepFrom             // from
	alsoReleased             // wait does not need its checkpoint any more
)

// Records says that n more journal records were read. The reader calls it after it has handed the batch on, so that a barrier
// never covers a record that was counted and not yet handed on. It does not block.
func (c *Coordinator) Records(n int) {
	if n <= 0 {
		return
	}
	before := c.records.Load()
	after := c.records.Add(uint64(n))
	every := c.o.Config.EveryRecords
	if before == 0 || after == uint64(n) || every > 0 && after >= every && after-uint64(n) < every {
		c.signal()
	}
}

// Deliver takes a task's snapshot of the barrier under way. It neither blocks nor touches the tables. After Run has
// ended it drops the snapshot: the tables die with the region.
func (c *Coordinator) Deliver(s pipeline.TaskSnapshot) {
	c.send(message{kind: EventDelivered, snap: s})
}

// Trigger waits for the commit of a checkpoint whose barrier was put in after the call. When no record was read since the
// current checkpoint, that is the answer and nothing is written.
func (c *Coordinator) Trigger(ctx context.Context) (Checkpoint, error) {
	return c.trigger(ctx, &waiter{to: make(chan answer, 1)})
}

// Hold is Trigger, and the checkpoint, with what it needs of store and journal, is kept until release is called. What is retained after
// that is as ever. It is for who reads the checkpoint, such as a savepoint: while it is held the journal grows.
func (c *Coordinator) Hold(ctx context.Context) (held Checkpoint, release func(), err error) {
	w := &waiter{to: make(chan answer, 1), hold: true}
	if held, err = c.trigger(ctx, w); err != nil {
		return held, func() {}, err
	}
	return held, func() { c.send(message{also: alsoReleased, wait: w}) }, nil
}

// KeepFrom keeps, from the next checkpoint on, what changed since checkpoint id, for Changed: the store holds that checkpoint and all newer ones. The journal is not held for
// them: they are not there to be restored. 0 ends it. It is for who copies changes elsewhere; the store grows while it does not move on.
func (c *Coordinator) KeepFrom(id uint64) { c.send(message{also: alsoKeepFrom, from: id}) }

func (c *Coordinator) trigger(ctx context.Context, w *waiter) (Checkpoint, error) {
	if !c.send(message{kind: EventDemand, wait: w}) {
		return Checkpoint{}, fmt.Errorf("trigger checkpoint: %w", ErrClosed)
	}
	select {
	case a := <-w.to:
		return a.c, a.err
	case <-ctx.Done():
		if w.hold {
			c.send(message{also: alsoReleased, wait: w})
		}
		return Checkpoint{}, fmt.Errorf("trigger checkpoint: %w", ctx.Err())
	}
}

// Nudge has the coordinator look again, for when Options.Pressed may have changed.
func (c *Coordinator) Nudge() { c.signal() }

func (c *Coordinator) send(m message) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	c.inbox = append(c.inbox, m) // bounded: one snapshot per task, one demand per waiting caller, one event per job
	c.mu.Unlock()
	c.signal()
	return true
}

func (c *Coordinator) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Coordinator) drainInbox() []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.inbox
	c.inbox = nil
	return out
}
