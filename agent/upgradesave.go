//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/upgrade"
)

const upgradeSavepoints = "upgrade-"

func (u *upgrader) savepointName(pipeline string) string {
	return fmt.Sprintf("%s%d-%s", upgradeSavepoints, u.rec.Number, pipeline)
}

// drain stops every pipeline that runs behind a savepoint. The sessions go on: what comes is journaled behind S, and the new program works on it. Those that do not run have no S, and stay as they are until the program is
// committed.
func (u *upgrader) drain(ctx context.Context) error {
	a := u.agent
	ctx, cancel := context.WithTimeout(ctx, upgrade.DrainLimit)
	defer cancel()
	var savings []upgrade.Saving
	for _, s := range a.all() {
		if s.is(PipelineStopped) && !u.stopped[s.name] || s.is(PipelineFailed) {
			continue
		}
		u.waits("pipeline " + s.name + " stops with a savepoint")
		left, err := u.drainOne(ctx, s)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return unfitFor(upgrade.CauseDrain, "pipeline %s did not stop behind a savepoint within %s", s.name, upgrade.DrainLimit)
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			return unfitFor(upgrade.CauseDrain, "pipeline %s: %w", s.name, err)
		}
		savings = append(savings, u.savingOf(s, left))
		a.retain(upgradeHold, left)
	}
	if err := a.fence.err(); err != nil { // it stops pipelines too
		return err
	}
	return u.note(upgrade.Event{Kind: upgrade.Drained, Savings: savings, Minor: a.identity.Minor})
}

func (s *supervisor) is(state PipelineState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == state
}

// drainOne waits for a pipeline that is between two tries, and stops it.
func (u *upgrader) drainOne(ctx context.Context, s *supervisor) (saved, error) {
	a := u.agent
	id, err := statedir.ParseUUID(a.registry.UUID(s.name))
	if err != nil {
		return saved{}, err
	}
	name := u.savepointName(s.name)
	tick := time.NewTicker(backPoll)
	defer tick.Stop()
	for s.running() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return saved{}, ctx.Err()
		}
		if s.is(PipelineFailed) {
			return saved{}, errors.New("it failed; see weir status")
		}
	}
	if err := os.Remove(filepath.Join(restore.SavepointDir(a.config), name+restore.SavepointSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try that was cut short: the record does not know it
		return saved{}, err
	}
	u.stopped[s.name] = true // it may be stopped although the answer is lost
	var then func(context.Context, *attempt) error
	if u.rec.UploadS {
		then = func(ctx context.Context, at *attempt) error { return at.uploadLast(ctx) }
	}
	return a.stopBehind(ctx, s, id.String(), name, then)
}

func (u *upgrader) savingOf(s *supervisor, left saved) upgrade.Saving {
	out := upgrade.Saving{Name: left.Name, UUID: left.UUID, Plan: left.Plan, Savepoint: left.Savepoint, SHA256: left.SHA256, Checkpoint: left.Checkpoint, Position: left.Position}
	for _, e := range left.Ends {
		out.Ends = append(out.Ends, upgrade.End{UID: e.UID, Seq: e.Seq})
	}
	out.Live = len(liveSinks(s.spec.Graph)) > 0 && u.readsBack()
	return out
}

// handOver has all that the new program needs durable, then lets it take over.
func (u *upgrader) handOver(ctx context.Context) error {
	if u.rec.UploadS {
		if err := u.awaitUploads(ctx); err != nil {
			return err
		}
	}
	for _, s := range u.backTo() {
		if err := u.agent.order(s, u.rec.Discard); err != nil {
			return u.unordered(fmt.Errorf("pipeline %s: order the restore of its savepoint: %w", s.Name, err))
		}
	}
	return u.note(upgrade.Event{Kind: upgrade.Switching})
}

// ordersMax is how often in a process the restores are ordered: the pipelines stand meanwhile.
const ordersMax = 5

// unordered gives up what the disk does not take.
func (u *upgrader) unordered(err error) error {
	if u.tally["order"]++; u.tally["order"] < ordersMax {
		return err
	}
	if diskFull(err) {
		return unfitFor(upgrade.CauseSpace, "%w", err)
	}
	return unfitFor(upgrade.CauseDrain, "%w", err)
}

// awaitUploads waits until the central store has each pipeline as far as S.
func (u *upgrader) awaitUploads(ctx context.Context) error {
	tick := time.NewTicker(10 * backPoll)
	defer tick.Stop()
	for _, s := range u.rec.Savings {
		id, err := statedir.ParseUUID(s.UUID)
		if err != nil {
			return err
		}
		for !s.Uploaded {
			if c := u.agent.centralStatus(id); c != nil && c.Pending == 0 && c.Position >= s.Position {
				break
			}
			u.waits("the savepoint of pipeline " + s.Name + " is uploaded")
			if _, over := upgrade.Overdue(u.rec, now()); over {
				return nil // the next step says so
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := u.note(upgrade.Event{Kind: upgrade.Uploaded, Name: s.Name}); err != nil {
			return err
		}
	}
	return nil
}
