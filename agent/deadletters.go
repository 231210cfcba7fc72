package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/deadletter"
)

// deadDir lies in a pipeline's directory.
const deadDir = "dead"

// deadOf are the dead letters of a pipeline that are open.
type deadOf struct {
	id    string // of the pipeline
	store *deadletter.Store
	log   *slog.Logger
}

// deadLock is held by whoever has the dead letters of a pipeline open.
func (a *Agent) deadLock(id snapshot.UUID) *sync.Mutex {
	a.earlyMu.Lock()
	defer a.earlyMu.Unlock()
	l := a.deadLocks[id.String()]
	if l == nil {
		l = &sync.Mutex{}
		a.deadLocks[id.String()] = l
	}
	return l
}

// withDead calls f with the dead letters of a pipeline: those of the running attempt, or opened for the call where it does not run. So
// it works on an agent that does not run at all (New without Run).
func (a *Agent) withDead(ctx context.Context, name string, f func(d deadOf) error) error {
	s, err := a.supervisorOf(name)
	if err != nil {
		return err
	}
	id, err := statedir.ParseUUID(a.registry.UUID(s.name))
	if err != nil {
		return fmt.Errorf("registry: pipeline %s: %w", s.name, err)
	}
	if at := s.running(); at != nil {
		return f(at.deadOf())
	}
	lock := a.deadLock(id)
	if !lock.TryLock() {
		return fmt.Errorf("pipeline %s starts or stops at this moment; try again", s.name)
	}
	defer lock.Unlock()
	logger := a.log.With("pipeline", s.name)
	store, err := a.openDead(filepath.Join(a.pipelinesDir(), id.String(), deadDir), s.spec.Pipeline, logger, nil)
	if err != nil {
		return err
	}
	d := deadOf{id: id.String(), store: store, log: logger}
	if err = a.settleRequeue(ctx, d); err == nil {
		err = f(d)
	}
	return errors.Join(err, store.Close())
}

// Pipelines names what has dead letters of its own: pipelines, or their regions.
func (a *Agent) Pipelines() (names []string) {
	for _, s := range a.all() {
		names = append(names, s.name)
	}
	return names
}

// DeadLetters calls f for the chosen dead letters of a pipeline, oldest first.
func (a *Agent) DeadLetters(pipeline string, q api.DeadQuery, f func(api.DeadLetter) error) error {
	return a.withDead(context.Background(), pipeline, func(d deadOf) error {
		return d.each(q, func(e *deadletter.Entry, letter []byte) error {
			return f(api.DeadLetter{Seq: e.ID, KeptMs: e.Wall, Letter: letter})
		})
	})
}

// deadPage is how many entries are read at once.
const deadPage = 256

// each calls f for the chosen entries, at most q.Limit.
func (d deadOf) each(q api.DeadQuery, f func(e *deadletter.Entry, letter []byte) error) error {
	given := 0
	for after := q.After; q.Limit <= 0 || given < q.Limit; {
		list, err := d.store.List(context.Background(), after, deadPage)
		if err != nil {
			return fmt.Errorf("list dead letters: %w", err)
		}
		for i := range list {
			e := &list[i]
			if after = e.ID; q.UpTo > 0 && after > q.UpTo {
				return nil
			}
			letter, err := letterOf(e)
			if err != nil {
				return err
			}
			if !chosen(&q, e, letter) {
				continue
			}
			if err := f(e, letter); err != nil {
				return err
			}
			if given++; q.Limit > 0 && given == q.Limit {
				return nil
			}
		}
		if len(list) < deadPage {
			return nil
		}
	}
	return nil
}

// chosen is pure.
func chosen(q *api.DeadQuery, e *deadletter.Entry, letter []byte) bool {
	if len(q.Seqs) > 0 && !slices.Contains(q.Seqs, e.ID) || q.Since > 0 && e.Wall < q.Since || q.Until > 0 && e.Wall >= q.Until {
		return false
	}
	if q.Reason == "" && q.Step == "" {
		return true
	}
	var l exec.DeadLetter
	return json.Unmarshal(letter, &l) == nil && (q.Reason == "" || l.Reason == q.Reason) && (q.Step == "" || l.Step == q.Step)
}

// expireDead removes the dead letters of the running pipelines that are too old.
func (a *Agent) expireDead(ctx context.Context) {
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			if _, err := at.dead.Expire(ctx); err != nil && ctx.Err() == nil && s.running() == at {
				at.log.Warn("old dead letters could not be removed", "error", err)
			}
		}
	}
}

func (a *attempt) deadStatus() *api.DeadStatus {
	st := a.dead.Stats()
	s := &api.DeadStatus{
		Kept: st.Kept, Held: st.Held, Evicted: st.Evicted, Expired: st.Expired, Requeued: st.Requeued, OldestMs: st.Oldest,
		Bytes: st.Log.LiveBytes, BytesMax: a.agent.deadConfig(&a.spec.Dead).MaxBytes,
	}
	if a.feed != nil {
		s.Sink = a.feed.Status()
	}
	return s
}

// Stopped gives an agent that does not run, for what can be done on its files: it holds the lock of state_dir until Close. ErrLocked: it runs.
func Stopped(cfg *config.Config) (*Agent, error) {
	return New(cfg, Options{Logger: slog.New(slog.DiscardHandler)})
}
