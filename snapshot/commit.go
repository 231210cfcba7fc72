package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/pipeline"
)

const (
	// rebaseBytesMin: below it only the number of deltas makes a new base. A new base is a new file, which costs some 50 KB of
	// ext4 metadata whatever its size.
	rebaseBytesMin = 1 << 20
	// rebaseFramesMax bounds what a merge or a restore reads side by side.
	rebaseFramesMax = 128
	// rebaseRetry: after a failed merge so many checkpoints pass before the next try.
	rebaseRetry = 8
)

// Initial is where a new pipeline starts: with empty state behind a position.
type Initial struct {
	Position pipeline.Position // reading goes on at Position+1
	Sinks    []pipeline.SinkMark
	Outbox   []OutboxRange
}

// CommitInitial writes the checkpoint that a pipeline without one starts from, and holds the journal. It is durable on return: only then
// may the first record be read (RULES 11). Called before Run, and only when Options.Current is nil.
func (c *Coordinator) CommitInitial(ctx context.Context, in Initial) (Checkpoint, error) {
	if c.current != nil {
		return Checkpoint{}, errors.New("commit initial checkpoint: there is one already")
	}
	m := c.manifest(c.o.Store.LastID()+1, in.Position)
	m.Oldest, m.Sinks, m.Outbox = m.ID, in.Sinks, in.Outbox
	w, err := c.o.Store.Begin(ctx, nil, m.ID)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("commit initial checkpoint: %w", err)
	}
	if err := w.Commit(ctx, m); err != nil {
		w.Abort()
		return Checkpoint{}, fmt.Errorf("commit initial checkpoint: %w", err)
	}
	c.current = m
	c.meter.with(c.describe)
	if c.o.Journal != nil {
		c.o.Journal.Retain(c.o.Holder, m.Position)
	}
	return Checkpoint{m.ID, m.Position, m}, nil
}

func (c *Coordinator) manifest(id uint64, pos pipeline.Position) *Manifest {
	i := c.o.Identity
	wall, trusted := c.o.Wall()
	return &Manifest{
		Pipeline: i.Pipeline, ID: id, Position: pos, PlanHash: i.PlanHash, Generation: i.Generation, Incarnation: i.Incarnation,
		WallMs: wall, Trusted: trusted, Tasks: c.o.Tasks, Behaviours: i.Behaviours,
	}
}

// inject starts the barrier that Next decided on.
func (c *Coordinator) inject(ctx context.Context) {
	c.records.Store(0)
	c.lastErr = nil
	clear(c.snaps)
	c.now, c.next = c.next, nil
	c.demanded = len(c.now) > 0
	id := c.state.ID
	ictx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.jobs.Go(func() {
		defer cancel()
		c.send(message{kind: EventInjected, err: c.o.Engine.Inject(ictx, id)})
	})
}

// abortLater merges a snapshot back in a goroutine of its own, since that waits for the table's lock.
func (c *Coordinator) abortLater(s pipeline.TaskSnapshot, report bool) {
	c.jobs.Go(func() {
		c.abortParts(s)
		if report {
			c.send(message{kind: EventAborted})
		}
	})
}

func (c *Coordinator) abortParts(s pipeline.TaskSnapshot) {
	for _, p := range s.Parts {
		if c.bugs.forgetAborted {
			p.Frozen.Commit()
			continue
		}
		p.Frozen.Abort()
	}
}

// commitJob is what one checkpoint is made of; the writing goroutine owns it.
type commitJob struct {
	id       uint64
	parent   *Manifest
	snaps    []pipeline.TaskSnapshot // in the order of Options.Tasks
	base     BaseRef                 // a merged base to name from now on; zero: the parent's
	oldest   uint64
	demanded bool
	mayIdle  bool // when nothing but the position moved, write nothing
	pressed  bool // write though nothing moved: older checkpoints hold a full journal
}

// written is how a commitJob ended well.
type written struct {
	m        *Manifest // nil: nothing was written
	bytes    uint64
	entries  uint64
	usedBase bool
}

// write starts the goroutine that makes the checkpoint. It ends every part.
func (c *Coordinator) write(ctx context.Context) {
	j := commitJob{id: c.state.ID, parent: c.current, base: c.base, demanded: c.demanded}
	for _, t := range c.o.Tasks {
		j.snaps = append(j.snaps, c.snaps[t])
	}
	j.oldest = c.oldestAfter(j.id)
	j.mayIdle = time.Since(c.lastWrite) < c.o.Config.IdleInterval
	wctx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	j.pressed = c.pressed()
	c.jobs.Go(func() {
		defer cancel()
		if c.bugs.hang != nil {
			c.bugs.hang()
		}
		done, err := c.commit(wctx, j)
		if err != nil && wctx.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrTimeout, err)
		}
		c.send(message{kind: EventWritten, done: done, err: err})
	})
}

// oldestAfter is the oldest checkpoint that is retained once id is committed.
func (c *Coordinator) oldestAfter(id uint64) uint64 {
	if n := c.superfluous(c.o.Config.Retained - 1); n < len(c.kept) {
		return c.kept[n].id
	}
	return id
}

// superfluous is how many of the oldest kept checkpoints go when keep of them are enough. What is held stays, with all that is newer.
func (c *Coordinator) superfluous(keep int) int {
	n := c.unheld(keep)
	for c.keepFrom > 0 && n > 0 && c.kept[n-1].id >= c.keepFrom {
		n--
	}
	return n
}

// floor is the index of the oldest kept checkpoint that the journal is held for. Those before it are kept for what changed since them.
func (c *Coordinator) floor() int { return c.unheld(c.o.Config.Retained) }

// unheld is superfluous without regard to KeepFrom.
func (c *Coordinator) unheld(keep int) int {
	n := max(len(c.kept)-keep, 0)
	for _, id := range c.held {
		for n > 0 && c.kept[n-1].id >= id {
			n--
		}
	}
	return n
}

// commit is the commit order: outbox, deltas, manifest, release. Prune and trim follow in finish.
func (c *Coordinator) commit(ctx context.Context, j commitJob) (*written, error) {
	done, err := c.persist(ctx, j)
	if err != nil {
		for _, s := range j.snaps {
			c.abortParts(s)
		}
		return nil, err
	}
	for _, s := range j.snaps {
		for _, p := range s.Parts {
			p.Frozen.Commit()
		}
	}
	if c.o.Outbox != nil {
		c.o.Outbox.Released(j.id)
	}
	return done, nil
}

func (c *Coordinator) persist(ctx context.Context, j commitJob) (*written, error) {
	m, changed, err := c.compose(j)
	if err != nil {
		return nil, err
	}
	if !changed && !j.pressed && (m.Position == j.parent.Position || j.mayIdle && !j.demanded) {
		return &written{}, nil
	}
	m.Idle = !changed
	if c.o.Outbox != nil {
		if m.Outbox, err = c.o.Outbox.Seal(ctx, j.snaps[0].Barrier); err != nil {
			return nil, fmt.Errorf("seal outbox: %w", err)
		}
	}
	if c.o.Ledger != nil {
		m.Ledger = c.o.Ledger(j.snaps[0].Barrier)
	}
	w, err := c.o.Store.Begin(ctx, j.parent, j.id)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for i, s := range j.snaps {
		if err := w.Write(ctx, c.o.Tasks[i], s.Parts); err != nil {
			return nil, fmt.Errorf("write delta of task %s: %w", c.o.Tasks[i], err)
		}
	}
	if c.bugs.releaseEarly && c.o.Outbox != nil {
		c.o.Outbox.Released(j.id)
		time.Sleep(c.bugs.pause)
	}
	if n := c.bugs.abortEvery; n > 0 && j.id%n == 0 {
		return nil, fmt.Errorf("write manifest %d: %w", j.id, errPlanted)
	}
	m.Base = j.base
	if err := w.Commit(ctx, m); err != nil {
		return nil, err
	}
	done := &written{m: m, usedBase: j.base.Serial != 0}
	for _, f := range m.Frames {
		if f.Checkpoint == j.id {
			done.bytes += f.Bytes
			done.entries += f.Entries
		}
	}
	return done, nil
}

// compose makes the manifest and tells whether anything but the position differs from the parent.
func (c *Coordinator) compose(j commitJob) (m *Manifest, changed bool, err error) {
	b := j.snaps[0].Barrier
	m = c.manifest(j.id, b.Position)
	m.Parent, m.Oldest = j.parent.ID, j.oldest
	if c.bugs.trimBeforePrune {
		m.Oldest = j.parent.Oldest
	}
	for _, s := range j.snaps {
		if s.Barrier.ID != j.id || s.Barrier.Position != b.Position {
			return nil, false, fmt.Errorf("task %s froze at barrier %d, position %d; task %s at barrier %d, position %d",
				s.Task, s.Barrier.ID, s.Barrier.Position, j.snaps[0].Task, b.ID, b.Position)
		}
		m.Sinks = append(m.Sinks, s.Sinks...)
		for _, p := range s.Parts {
			changed = changed || p.Frozen.Len() > 0
			if _, known := m.Table(p.UID, p.Spec.Name); known { // of another instance of the step: parts of one table
				continue
			}
			t := TableMeta{UID: p.UID, Spec: p.Spec, Since: j.id}
			if old, ok := j.parent.Table(p.UID, p.Spec.Name); ok && sameEntries(old.Spec, p.Spec) {
				t.Since = old.Since
				changed = changed || old.Spec != p.Spec
			} else {
				changed = true
			}
			m.Tables = append(m.Tables, t)
		}
	}
	changed = changed || len(m.Tables) != len(j.parent.Tables) || !slices.Equal(m.Sinks, j.parent.Sinks) ||
		m.Generation != j.parent.Generation || m.PlanHash != j.parent.PlanHash
	if b.Position < j.parent.Position {
		return nil, false, fmt.Errorf("barrier %d at position %d lies before checkpoint %d at %d", b.ID, b.Position, j.parent.ID, j.parent.Position)
	}
	return m, changed, nil
}

// wrote takes over a commit that succeeded (done nil: it failed).
func (c *Coordinator) wrote(done *written) {
	if done == nil {
		return
	}
	if done.m == nil {
		c.meter.with(func(m *Metrics) { m.Idle, m.FailedInARow, m.Alarm, m.LastError = m.Idle+1, 0, false, "" })
		c.answer(&c.now, answer{c: Checkpoint{c.current.ID, c.current.Position, c.current}})
		return
	}
	m := done.m
	c.current, c.lastWrite = m, time.Now()
	if done.usedBase {
		c.base = BaseRef{}
	}
	c.kept = append(c.kept, retainedCheckpoint{m.ID, m.Position})
	c.kept = slices.Delete(c.kept, 0, c.superfluous(c.o.Config.Retained))
	took := time.Since(c.state.Started)
	c.meter.with(func(t *Metrics) {
		t.LastGood, t.LastDuration, t.LastAlign = time.Now(), took, c.aligned.Sub(c.state.Started)
		t.LastBytes, t.LastEntries = done.bytes, done.entries
		t.Committed++
		t.FrameBytes += done.bytes
		t.FailedInARow, t.Alarm, t.LastError = 0, false, ""
		c.describe(t)
	})
	c.log.Debug("checkpoint committed", "id", m.ID, "position", uint64(m.Position), "bytes", done.bytes, "took", took)
	c.answer(&c.now, answer{c: Checkpoint{m.ID, m.Position, m}})
}

// complaintEvery: of checkpoints that fail one after the other the first is told, and one now and then.
const complaintEvery = time.Minute

// failed counts a checkpoint that was aborted.
func (c *Coordinator) failed(phase Phase) {
	err := c.lastErr
	if phase == PhaseAligning && !errors.Is(err, ErrStoreFailed) && err == nil {
		err = fmt.Errorf("%w after %s, %d of %d tasks delivered", ErrTimeout, c.o.Config.Timeout, len(c.snaps), len(c.o.Tasks))
		c.lastErr = err
	}
	c.meter.with(func(m *Metrics) {
		m.Failed, m.FailedInARow = m.Failed+1, c.state.Failures
		if err != nil {
			m.LastError = err.Error()
		}
	})
	if now := time.Now(); c.state.Failures <= 1 || now.Sub(c.complained) >= complaintEvery {
		c.complained = now
		c.log.Warn("checkpoint failed", "id", c.state.ID, "in_a_row", c.state.Failures, "error", err)
	}
	c.answer(&c.now, answer{err: fmt.Errorf("checkpoint %d: %w", c.state.ID, err)})
}

// finish starts the goroutine that prunes, then holds the journal where the oldest retained checkpoint stands, then trims
// (RULES 12). A failure costs space, not safety: the next commit tries again.
func (c *Coordinator) finish(ctx context.Context) {
	oldest, floor := c.kept[0].id, c.floor()
	c.maybeRebase(ctx)
	c.jobs.Go(func() {
		defer c.send(message{kind: EventFinished})
		if c.bugs.trimBeforePrune {
			c.trim(ctx, floor)
			time.Sleep(c.bugs.pause)
		}
		if err := c.o.Store.Prune(ctx, oldest); err != nil {
			c.meter.with(func(m *Metrics) { m.PruneFailed++ })
			c.log.Warn("prune checkpoints failed", "oldest", oldest, "error", err)
			return
		}
		c.trim(ctx, floor)
	})
}

// trim runs while the owner waits for EventFinished, so kept and current stand still.
func (c *Coordinator) trim(ctx context.Context, floor int) {
	c.hold(floor)
	if c.o.Journal == nil {
		return
	}
	if err := c.o.Journal.Trim(ctx); err != nil && ctx.Err() == nil { // the run ends: the next one trims
		c.meter.with(func(m *Metrics) { m.TrimFailed++ })
		c.log.Warn("trim journal failed", "error", err)
	}
}

// needsRebase is the decision to merge.
func needsRebase(cfg Config, m *Manifest) bool {
	bytes, checkpoints := m.DeltaBytes()
	return checkpoints >= cfg.RebaseDeltas || len(m.Frames) >= rebaseFramesMax ||
		bytes > rebaseBytesMin && float64(bytes) > cfg.RebaseRatio*float64(m.Base.Unpacked)
}

// maybeRebase starts a merge beside the checkpoints that go on.
func (c *Coordinator) maybeRebase(ctx context.Context) {
	m := c.current
	if c.rebasing || c.base.Serial != 0 || m.ID < c.rebaseAt || !needsRebase(c.o.Config, m) {
		return
	}
	c.rebasing = true
	c.jobs.Go(func() {
		b, err := c.o.Store.Rebase(ctx, m)
		c.send(message{also: alsoRebased, base: &b, err: err})
	})
}

func (c *Coordinator) rebased(b *BaseRef, err error) {
	c.rebasing = false
	if err != nil {
		c.rebaseAt = c.current.ID + rebaseRetry
		c.meter.with(func(m *Metrics) { m.RebaseFailed++ })
		c.log.Warn("merge checkpoint base failed", "error", err)
		return
	}
	c.base = *b
	c.meter.with(func(m *Metrics) { m.Rebases++ })
	c.log.Debug("checkpoint base merged", "checkpoint", b.Checkpoint, "bytes", b.Bytes, "entries", b.Entries)
}
