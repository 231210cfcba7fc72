package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// A story is one life of a pipeline's checkpoints, told by the real coordinator, with everything that the promises depend on noted
// by the number of disk operations done so far. A crash test then takes the disk as it may be after a power cut at any of them.

// fact is what holds from operation at on.
type fact struct {
	at    int
	acked uint64            // newest checkpoint whose Trigger returned
	aside map[uint64]bool   // set aside: Restore returned
	first pipeline.Position // of the journal, durable
}

type story struct {
	seed  uint64
	ops   func() int // disk operations so far
	mu    sync.Mutex
	facts []fact
	at    *contents
}

func (y *story) note(f func(n *fact)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := fact{aside: map[uint64]bool{}, first: 1}
	if len(y.facts) > 0 {
		n = y.facts[len(y.facts)-1]
		n.aside = maps.Clone(n.aside)
	}
	n.at = y.ops()
	f(&n)
	y.facts = append(y.facts, n)
}

// when gives the facts that hold after op operations.
func (y *story) when(op int) fact {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := fact{aside: map[uint64]bool{}, first: 1}
	for _, f := range y.facts {
		if f.at <= op {
			n = f
		}
	}
	return n
}

// chapters and checkpoints of each chapter: enough for some thousand crash states.
const (
	storyChapters    = 4
	storyCheckpoints = 12
)

// tell runs the story on a store. bugs are planted in each coordinator; an error means that the story itself came to a bad end.
func (y *story) tell(t *testing.T, s Store, bugs faults) error {
	t.Helper()
	ctx := t.Context()
	cfg := testConfig()
	cfg.Interval, cfg.RebaseDeltas, cfg.Retained = 0, 4, 3
	cfg.Timeout = time.Hour
	e := &fakeEngine{p: newPlant()}
	y.at = e.p.at
	o := &fakeOutbox{}
	j := &fakeJournal{first: 1, onTrim: func(first pipeline.Position) error {
		y.note(func(n *fact) { n.first = first })
		return nil
	}}
	r := newRand(y.seed)
	var current *Manifest
	for chapter := range storyChapters {
		c, err := NewCoordinator(Options{
			Config: cfg, Identity: testIdentity(), Store: s, Engine: e, Outbox: o, Journal: j, Tasks: testTasks, Current: current,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.bugs, e.c = bugs, c
		if current == nil {
			ck, err := c.CommitInitial(ctx, Initial{})
			if err != nil {
				t.Fatal(err)
			}
			e.p.at.set(ck.ID, content{})
			y.note(func(n *fact) { n.acked = ck.ID })
		}
		y.chapter(t, c, e, o, func() {
			for range 30 {
				randomChange(r, e.p, 40)
			}
		})
		// The newest one turns out to be unusable.
		first := chapter < storyChapters-1
		y.note(func(n *fact) { n.acked = c.kept[len(c.kept)-2].id })
		res, err := Restore(ctx, RestoreOptions{Store: s, Pipeline: testPipeline, JournalFirst: j.first, Whole: func([]OutboxRange) error {
			if first {
				first = false
				return errors.New("results are missing")
			}
			return nil
		}})
		if err != nil {
			return err
		}
		y.note(func(n *fact) {
			n.acked = res.Manifest.ID
			for _, f := range res.Fallbacks {
				n.aside[f.ID] = true
			}
		})
		current = res.Manifest
		if e.p, err = e.p.load(res.Source); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}

// chapter makes some checkpoints, one of which fails.
func (y *story) chapter(t *testing.T, c *Coordinator, e *fakeEngine, o *fakeOutbox, change func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for i := range storyCheckpoints {
		e.change(func(*plant) { change() })
		if i == 3 {
			o.fail(errFull)
		}
		ck, err := c.Trigger(ctx)
		if i == 3 {
			if err == nil {
				t.Error("checkpoint did not fail")
			}
			o.fail(nil)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		y.note(func(n *fact) { n.acked = max(n.acked, ck.ID) })
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// judge checks every promise on what a crash left while n held.
func (y *story) judge(s Store, n fact) error {
	ctx := context.Background()
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	if len(list.Damage)+len(list.Bad) > 0 {
		return fmt.Errorf("a crash is not damage: %v %v", list.Damage, list.Bad)
	}
	for i, m := range list.Manifests {
		if n.aside[m.ID] {
			return fmt.Errorf("checkpoint %d was set aside and is live (RULES 9)", m.ID)
		}
		if m.Position+1 < n.first {
			return fmt.Errorf("checkpoint %d at %d is live, the journal begins at %d (RULES 12)", m.ID, m.Position, n.first)
		}
		if i > 0 && i < len(list.Manifests)-1 { // newest and oldest are read back, those between have the same frames
			err = s.Verify(ctx, m)
		} else {
			err = readsBack(s, m, y.at.get(m.ID))
		}
		if err != nil {
			return err
		}
	}
	res, err := Restore(ctx, RestoreOptions{Store: s, Pipeline: testPipeline, JournalFirst: n.first})
	if errors.Is(err, ErrNoCheckpoint) && n.acked == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if len(res.Fallbacks) > 0 {
		return fmt.Errorf("a crash is not damage: passed over %v", res.Fallbacks)
	}
	if res.Manifest.ID < n.acked {
		return fmt.Errorf("restored %d, %d was committed", res.Manifest.ID, n.acked)
	}
	return nil
}
