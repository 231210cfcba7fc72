package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// bench of a coordinator inside a synctest bubble.
type stand struct {
	t   *testing.T
	e   *fakeEngine
	o   *fakeOutbox
	j   *fakeJournal
	s   Store
	c   *Coordinator
	ctx context.Context
	end context.CancelFunc
	res chan error
}

func testConfig() Config {
	c := Default()
	c.Interval, c.Timeout, c.Retained = time.Second, 5*time.Second, 3
	return c
}

func newStand(t *testing.T, cfg Config, s Store) *stand {
	t.Helper()
	st := &stand{t: t, e: &fakeEngine{p: newPlant()}, o: &fakeOutbox{}, j: &fakeJournal{first: 1}, s: s, res: make(chan error, 1)}
	st.build(cfg, nil)
	if _, err := st.c.CommitInitial(t.Context(), Initial{}); err != nil {
		t.Fatal(err)
	}
	st.e.p.at.set(st.c.current.ID, content{})
	return st
}

func (st *stand) build(cfg Config, current *Manifest) {
	c, err := NewCoordinator(Options{
		Config: cfg, Identity: testIdentity(), Store: st.s, Engine: st.e, Outbox: st.o, Journal: st.j, Tasks: testTasks, Current: current,
	})
	if err != nil {
		st.t.Fatal(err)
	}
	st.c, st.e.c = c, c
}

func (st *stand) run() {
	st.ctx, st.end = context.WithCancel(st.t.Context())
	go func() { st.res <- st.c.Run(st.ctx) }()
	synctest.Wait()
}

func (st *stand) stop() error {
	st.end()
	return <-st.res
}

func (st *stand) trigger() Checkpoint {
	st.t.Helper()
	ck, err := st.c.Trigger(st.t.Context())
	if err != nil {
		st.t.Fatal(err)
	}
	synctest.Wait()
	return ck
}

// restored opens the newest checkpoint and compares its content.
func (st *stand) restored() *Restored {
	st.t.Helper()
	r, err := Restore(st.t.Context(), RestoreOptions{Store: st.s, Pipeline: testPipeline, JournalFirst: st.j.first})
	if err != nil {
		st.t.Fatal(err)
	}
	got, err := contentOf(r.Source)
	if err != nil {
		st.t.Fatal(err)
	}
	st.e.mu.Lock()
	defer st.e.mu.Unlock()
	if err := sameContent(got, st.e.p.at.get(r.Manifest.ID)); err != nil {
		st.t.Fatalf("checkpoint %d: %v", r.Manifest.ID, err)
	}
	return r
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestRule11_InitialCheckpointIsDurableAndHoldsTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openTestBolt(t, dir)
		st := &stand{t: t, e: &fakeEngine{p: newPlant()}, o: &fakeOutbox{}, j: &fakeJournal{first: 1}, s: s}
		st.build(testConfig(), nil)
		if err := st.c.Run(t.Context()); err == nil {
			t.Fatal("ran without a checkpoint")
		}
		if _, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline}); !errors.Is(err, ErrNoCheckpoint) {
			t.Fatalf("got %v", err)
		}
		ck, err := st.c.CommitInitial(t.Context(), Initial{Position: 41})
		if err != nil || ck.Position != 41 || st.j.retain != 41 {
			t.Fatalf("got %+v, %v, retained from %d", ck, err, st.j.retain)
		}
		if m := st.c.Metrics(); m.LastID != ck.ID || m.LastPosition != 41 {
			t.Errorf("before Run the current checkpoint is %d at %d", m.LastID, m.LastPosition)
		}
		_ = s.Close()
		r, err := Restore(t.Context(), RestoreOptions{Store: openTestBolt(t, dir), Pipeline: testPipeline, JournalFirst: 42})
		if err != nil || r.Manifest.Position != 41 {
			t.Fatalf("got %+v, %v", r, err)
		}
		st.build(testConfig(), r.Manifest)
		if m := st.c.Metrics(); m.LastID != ck.ID || m.LastPosition != 41 {
			t.Errorf("before Run the restored checkpoint is %d at %d", m.LastID, m.LastPosition)
		}
	})
}

func TestCommitOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		st.run()
		for i := range 6 {
			st.e.change(func(p *plant) { p.put(0, fmt.Sprint("k", i), "", "v"); p.put(1, "a", fmt.Sprint(i), "w") })
			ck := st.trigger()
			if want := fmt.Sprintf("seal %d released %d", ck.ID, ck.ID); !strings.HasSuffix(strings.Join(st.o.log, " "), want) {
				t.Fatalf("outbox saw %v, want %s", st.o.log, want)
			}
			if len(ck.Manifest.Outbox) != 1 || ck.Manifest.Outbox[0].Last != uint64(ck.Position) {
				t.Fatalf("outbox ranges %+v", ck.Manifest.Outbox)
			}
		}
		m := st.c.Metrics()
		if m.RetainedCount != 3 || st.j.first != st.j.retain+1 {
			t.Fatalf("retained %d, journal first %d", m.RetainedCount, st.j.first)
		}
		list, _ := st.s.List(t.Context())
		if len(list.Manifests) != 3 || list.Manifests[2].Position != st.j.retain {
			t.Fatalf("%d manifests, oldest at %d, retained from %d", len(list.Manifests), list.Manifests[2].Position, st.j.retain)
		}
		if err := st.stop(); err != nil {
			t.Fatal(err)
		}
		st.restored()
	})
}

func TestTriggersByIntervalRecordsAndNotWhenIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.EveryRecords = 10
		st := newStand(t, cfg, openTestBolt(t, t.TempDir()))
		st.run()
		time.Sleep(10 * time.Second)
		if n := st.c.Metrics().Committed; n != 0 {
			t.Fatalf("idle pipeline wrote %d checkpoints", n)
		}
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		synctest.Wait()
		if n := st.c.Metrics().Committed; n != 1 { // the interval has passed long ago
			t.Fatalf("%d checkpoints, want 1", n)
		}
		st.e.change(func(p *plant) { p.put(0, "a", "", "2") })
		synctest.Wait()
		if n := st.c.Metrics().Committed; n != 1 {
			t.Fatalf("%d checkpoints before the interval", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := st.c.Metrics().Committed; n != 2 {
			t.Fatalf("%d checkpoints after the interval", n)
		}
		st.e.change(func(p *plant) {
			for i := range 12 {
				p.put(0, fmt.Sprint(i), "", "3")
			}
		})
		synctest.Wait()
		if n := st.c.Metrics().Committed; n != 3 {
			t.Fatalf("%d checkpoints after every_records", n)
		}
		// Records go by that change nothing: no write, and the journal stays held where the state is.
		held := st.j.retain
		for range 5 {
			st.e.change(func(p *plant) { p.pos += 5 })
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		m := st.c.Metrics()
		if m.Committed != 3 || m.Idle == 0 || st.j.retain != held {
			t.Fatalf("committed %d, idle %d, held %d, was %d", m.Committed, m.Idle, st.j.retain, held)
		}
		time.Sleep(cfg.IdleInterval)
		st.e.change(func(p *plant) { p.pos += 5 })
		synctest.Wait()
		if m = st.c.Metrics(); m.Committed != 4 || !st.c.current.Idle || m.LastBytes != 0 {
			t.Fatalf("committed %d after idle_interval, %+v", m.Committed, st.c.current)
		}
		before := m.LastID
		if ck := st.trigger(); ck.ID != before {
			t.Fatalf("a trigger without new records wrote checkpoint %d", ck.ID)
		}
		_ = st.stop()
		st.restored()
	})
}

// TestFullJournalIsNotHeldByThePast: all is worked in, and nothing comes any more since the journal has no room. The retained checkpoints have
// to move on by themselves, and then to stop.
func TestFullJournalIsNotHeldByThePast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		full := false // the coordinator stands still while it is changed
		st.c.o.Pressed = func() bool { return full }
		st.run()
		st.e.change(func(p *plant) { p.pos = 100; p.put(0, "k", "", "v") })
		time.Sleep(time.Minute)
		synctest.Wait()
		if st.j.retain >= st.c.Metrics().LastPosition {
			t.Fatalf("the journal is held from %d: nothing to see here", st.j.retain)
		}
		before := st.c.Metrics().Committed
		full = true
		st.c.Nudge()
		time.Sleep(time.Minute)
		synctest.Wait()
		if st.j.retain != st.c.Metrics().LastPosition {
			t.Errorf("a full journal is held from %d though all up to %d is worked in", st.j.retain, st.c.Metrics().LastPosition)
		}
		if n := st.c.Metrics().Committed - before; n != 2 {
			t.Errorf("%d checkpoints were written for it, want 2", n)
		}
		_ = st.stop()
		st.restored()
	})
}

// TestNoBarrierBeforeLateTasksDelivered: while a task still owes the snapshot of a failed barrier, no other barrier is put in.
func TestNoBarrierBeforeLateTasksDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := newStand(t, testConfig(), openTestBolt(t, t.TempDir()))
		var late []pipeline.TaskSnapshot
		st.e.hold = func(s pipeline.TaskSnapshot) bool {
			if s.Task == "t1" {
				late = append(late, s)
				return true
			}
			return false
		}
		st.run()
		st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(late) != 1 || st.c.Metrics().Failed != 1 {
			t.Fatalf("%d barriers, %d failures while one task is late", len(late), st.c.Metrics().Failed)
		}
		st.e.set(nil, nil)
		st.c.Deliver(late[0])
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st.c.Metrics().Committed != 1 {
			t.Fatal("no checkpoint after the late task delivered")
		}
		_ = st.stop()
		st.restored()
	})
}

// TestMachineNeverStuck feeds random legal events to Next: one barrier at a time, counters never negative, idle is reached again.
func TestMachineNeverStuck(t *testing.T) {
	cfg := testConfig()
	cfg.TolerableFailures = -1
	for seed := range 300 {
		r := newRand(uint64(seed))
		now := time.Unix(0, 0)
		s := State{NextID: 1, LastStart: now}
		const tasks = 3
		injecting, owed, got, aborting, writing, finishing := false, 0, 0, 0, false, false
		do := func(ev Event) {
			ev.Now = now
			ev.Records = uint64(r.IntN(2))
			var acts []Action
			before := s
			s, acts = Next(cfg, tasks, s, ev)
			for _, a := range acts {
				switch a {
				case ActionInject:
					if injecting || owed > 0 || aborting > 0 || writing || finishing {
						t.Fatalf("seed %d: barrier %d put in too early: %+v", seed, s.ID, before)
					}
					injecting, owed, got = true, tasks, 0
				case ActionAbort:
					aborting += got
				case ActionDiscard:
					aborting++
				case ActionWrite:
					writing = true
				case ActionFinish:
					finishing = true
				}
			}
			if s.Waiting < 0 || s.Aborting < 0 || s.Aborting != aborting {
				t.Fatalf("seed %d: %+v, aborting %d", seed, s, aborting)
			}
		}
		steps := 0
		for ; steps < 400; steps++ {
			now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
			switch r.IntN(7) {
			case 0:
				do(Event{Kind: EventWake})
			case 1:
				do(Event{Kind: EventDemand})
			case 2:
				if injecting {
					injecting = false
					var err error
					if owed == tasks && r.IntN(4) == 0 {
						err, owed = errors.New("no"), 0
					}
					do(Event{Kind: EventInjected, Err: err})
				}
			case 3:
				if owed > 0 {
					owed, got = owed-1, got+1
					do(Event{Kind: EventDelivered})
				}
			case 4:
				if aborting > 0 {
					aborting--
					do(Event{Kind: EventAborted})
				}
			case 5:
				if writing {
					writing = false
					var err error
					if r.IntN(3) == 0 {
						err = errors.New("no")
					}
					do(Event{Kind: EventWritten, Err: err})
				}
			case 6:
				if finishing {
					finishing = false
					do(Event{Kind: EventFinished})
				}
			}
		}
		if s.NextID < 5 {
			t.Fatalf("seed %d: only %d barriers in %d steps", seed, s.NextID-1, steps)
		}
	}
}
