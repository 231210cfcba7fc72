package mqtt

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// memJournal is a journal in memory that can lose what was not synced. Position p is entries[p-1].
type memJournal struct {
	mu        sync.Mutex
	entries   []pipeline.Entry
	first     pipeline.Position // lowest still held
	durable   pipeline.Position
	failed    error
	full      bool
	limit     int // entries, 0 = none
	onDurable map[int]func(pipeline.Position, error)
	onFull    map[int]func(bool)
	next      int
	held      bool // no commits while held
	wake      *sync.Cond
	wg        sync.WaitGroup
}

// commitTime is how long the fake's fsync takes: enough for batches.
const commitTime = 200 * time.Microsecond

func newMemJournal(entries ...pipeline.Entry) *memJournal {
	j := &memJournal{
		entries: entries, first: 1, durable: pipeline.Position(len(entries)),
		onDurable: make(map[int]func(pipeline.Position, error)), onFull: make(map[int]func(bool)),
	}
	j.wake = sync.NewCond(&j.mu)
	j.wg.Go(j.commit)
	return j
}

// commit is the committer; it ends when the journal fails.
func (j *memJournal) commit() {
	for {
		j.mu.Lock()
		for j.failed == nil && (j.held || j.durable == pipeline.Position(len(j.entries))) {
			j.wake.Wait()
		}
		if j.failed != nil {
			j.mu.Unlock()
			return
		}
		target := pipeline.Position(len(j.entries))
		j.mu.Unlock()
		time.Sleep(commitTime)
		j.mu.Lock()
		if j.failed != nil {
			j.mu.Unlock()
			return
		}
		j.durable = target
		var tell []func(pipeline.Position, error)
		for _, f := range j.onDurable {
			tell = append(tell, f)
		}
		j.wake.Broadcast()
		j.mu.Unlock()
		for _, f := range tell {
			f(target, nil)
		}
	}
}

func (j *memJournal) Append(e *pipeline.Entry) (pipeline.Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return 0, j.failed
	}
	if j.full || j.limit > 0 && len(j.entries) >= j.limit {
		return 0, pipeline.ErrJournalFull
	}
	c := *e
	c.Topic, c.Payload = bytes.Clone(e.Topic), bytes.Clone(e.Payload)
	c.Pos = pipeline.Position(len(j.entries) + 1)
	j.entries = append(j.entries, c)
	j.wake.Broadcast()
	return c.Pos, nil
}

func (j *memJournal) AppendAll(es []pipeline.Entry) (n int, err error) {
	for n < len(es) && err == nil {
		if es[n].Pos, err = j.Append(&es[n]); err == nil {
			n++
		}
	}
	return n, err
}

func (j *memJournal) First() pipeline.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first
}

func (j *memJournal) ScanBack(want func(pipeline.EntryKind) bool, f func(*pipeline.Entry) (bool, error)) error {
	entries := j.all()
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e.Pos <= j.Durable() && want(e.Kind) {
			if more, err := f(&e); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

func (j *memJournal) Last() pipeline.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return pipeline.Position(len(j.entries))
}

func (j *memJournal) Durable() pipeline.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

func (j *memJournal) OnDurable(f func(pipeline.Position, error)) func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	n := j.next
	j.onDurable[n] = f
	return func() { j.mu.Lock(); delete(j.onDurable, n); j.mu.Unlock() }
}

func (j *memJournal) OnFull(f func(bool)) func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	n := j.next
	j.onFull[n] = f
	return func() { j.mu.Lock(); delete(j.onFull, n); j.mu.Unlock() }
}

func (j *memJournal) Sync(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { j.mu.Lock(); j.wake.Broadcast(); j.mu.Unlock() })
	defer stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	target := pipeline.Position(len(j.entries))
	for j.durable < target && j.failed == nil && ctx.Err() == nil {
		j.wake.Wait()
	}
	if j.durable >= target {
		return nil
	}
	if j.failed != nil {
		return j.failed
	}
	return ctx.Err()
}

func (j *memJournal) Scan(from pipeline.Position, f func(*pipeline.Entry) error) error {
	for _, e := range j.all() {
		if e.Pos < max(from, j.first) || e.Pos > j.Durable() {
			continue
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

// all copies the entries still held.
func (j *memJournal) all() []pipeline.Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries[j.first-1:])
}

// hold stops and resumes commits.
func (j *memJournal) hold(held bool) {
	j.mu.Lock()
	j.held = held
	j.wake.Broadcast()
	j.mu.Unlock()
}

// setFull fills or empties the journal.
func (j *memJournal) setFull(full bool) {
	j.mu.Lock()
	j.full = full
	var tell []func(bool)
	for _, f := range j.onFull {
		tell = append(tell, f)
	}
	j.mu.Unlock()
	for _, f := range tell {
		f(full)
	}
}

// die is the end of the process: nothing is appended or synced any more.
func (j *memJournal) die(err error) {
	j.mu.Lock()
	j.failed = err
	j.wake.Broadcast()
	var tell []func(pipeline.Position, error)
	for _, f := range j.onDurable {
		tell = append(tell, f)
	}
	j.mu.Unlock()
	j.wg.Wait()
	for _, f := range tell {
		f(0, err)
	}
}

// reborn is what the next process finds: the durable entries and the first kept of the others.
func (j *memJournal) reborn(kept int) *memJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(int(j.durable)+kept, len(j.entries))
	next := newMemJournal(slices.Clone(j.entries[:n])...)
	next.first = j.first
	return next
}

func (j *memJournal) unsynced() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) - int(j.durable)
}

// trim recycles everything below before, after the session carried what it needs.
func (j *memJournal) trim(s *Session, before pipeline.Position) error {
	err := s.Carry(before, func(e *pipeline.Entry) error {
		_, err := j.Append(e)
		return err
	})
	if err != nil {
		return err
	}
	if err := j.Sync(context.Background()); err != nil {
		return err
	}
	j.mu.Lock()
	j.first = max(j.first, before)
	j.mu.Unlock()
	return nil
}

// payloads of the message records.
func payloadsOf(entries []pipeline.Entry) (all []string) {
	for _, e := range entries {
		if e.Kind == pipeline.EntryMessage {
			all = append(all, string(e.Payload))
		}
	}
	return all
}

func countKind(entries []pipeline.Entry, kind pipeline.EntryKind) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
