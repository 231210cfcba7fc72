package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/flash"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
)

// Status gathers what the agent does now. It takes no lock for longer than a copy.
func (a *Agent) Status() api.Status {
	s := api.Status{
		Gateway: a.gateway(), Version: Version(), Started: a.started,
		Clock:   a.clockStatus(),
		Journal: a.journalStatus(), Identity: a.identityStatus(),
	}
	for _, b := range a.sessions() {
		s.Sessions = append(s.Sessions, b.status(a.rebirths.sentTo(b.name)))
	}
	for _, sup := range a.all() {
		s.Pipelines = append(s.Pipelines, a.pipelineStatus(sup))
	}
	s.Apply, s.Upgrade, s.Flash = a.applier.status(), a.upgrader.status(), a.flash.Status()
	s.Fleet = a.fleet.status()
	s.Problems = problems(&s)
	return s
}

func (a *Agent) identityStatus() api.IdentityStatus {
	s := api.IdentityStatus{Incarnation: a.incarnation().String(), Board: a.board()}
	a.fence.mu.Lock()
	defer a.fence.mu.Unlock()
	if a.fence.by != nil {
		s.Fenced = a.fence.by.Why()
	}
	if n := a.fence.after; n != nil {
		s.Stranded = &api.StrandedStatus{Results: n.Results, Records: n.Records, Bytes: n.Bytes}
	}
	return s
}

func (a *Agent) journalStatus() api.JournalStatus {
	st := a.journal.Stats().Log
	j := api.JournalStatus{
		First: uint64(a.journal.First()), Last: uint64(a.journal.Last()), Durable: uint64(a.journal.Durable()), Bytes: st.LiveBytes,
		BytesMax: a.config.Journal.MaxBytes, Written: st.BytesWritten, Syncs: st.Syncs, Full: st.Full, Waits: st.Waits,
	}
	select {
	case err := <-a.failed:
		a.failed <- err
		j.Failed = err.Error()
	default:
	}
	return j
}

func (a *Agent) pipelineStatus(s *supervisor) api.PipelineStatus {
	s.mu.Lock()
	p := api.PipelineStatus{Name: s.name, UUID: a.registry.UUID(s.name), State: string(s.state), Restarts: s.restarts}
	if s.err != nil {
		p.Error = s.err.Error()
	}
	p.Progress = a.working.progressOf(s.name)
	at := s.current
	s.mu.Unlock()
	if id, err := statedir.ParseUUID(p.UUID); err == nil {
		p.Central = a.centralStatus(id)
	}
	if at == nil {
		if held, holds := a.journal.Stats().Holders[a.holderName(s.name)]; holds { // it goes on from there, or from a newer checkpoint
			p.Position = uint64(held)
			p.Lag = uint64(max(a.journal.Durable(), held) - held)
			p.LagBytes = a.lagBytes(held)
		}
		return p
	}
	at.fill(&p)
	if last := uint64(a.journal.Durable()); last > p.Position {
		p.Lag = last - p.Position
	}
	p.LagBytes, p.LagLimit = a.lagBytes(pipeline.Position(p.Position)), a.lagLimit(s.name)
	p.Balanced, p.Imbalance = balance(&p)
	return p
}

func (a *Agent) lagLimit(name string) int64 {
	if s := a.named(name); s != nil {
		return s.spec.LagBytes
	}
	return 0
}

// fill adds what a running attempt knows.
func (a *attempt) fill(p *api.PipelineStatus) {
	p.Position, p.StaleLookups = uint64(a.engine.Handled()), a.stale
	m := a.coordinator.Metrics()
	p.Checkpoint = api.CheckpointStatus{
		ID: m.LastID, Position: uint64(m.LastPosition), AgeSeconds: m.LastGoodAge(time.Now()).Seconds(), Bytes: int64(m.LastBytes),
		DurationMs: float64(m.LastDuration) / 1e6, Completed: m.Committed, Failed: m.Failed, InARow: uint64(m.FailedInARow), LastError: m.LastError,
	}
	p.Large = a.stateStatus()
	p.Dead = a.deadStatus()
	for _, t := range a.engine.Status() {
		task := api.TaskStatus{Name: t.Name, Position: uint64(t.Handled)}
		for _, r := range t.Regions {
			task.Regions = append(task.Regions, api.RegionStatus(r))
		}
		p.Tasks = append(p.Tasks, task)
	}
	ledger := a.engine.Ledger()
	for _, s := range ledger.Sources {
		p.Sources = append(p.Sources, api.SourceLedger{
			Name: s.Name, Received: s.Received, Split: s.Split, Processed: s.Rows + s.Tombstones, Rows: s.Rows, Tombstones: s.Tombstones, Dead: s.Dead, Stubs: s.Stubs,
		})
	}
	for _, s := range ledger.Steps {
		p.Steps = append(p.Steps, api.StepLedger{UID: s.UID, In: s.In, Emitted: s.Emitted, Late: s.Late, Dropped: s.Dropped, Dead: s.Dead})
	}
	for _, mark := range ledger.Sinks {
		if l := a.link(mark.UID); l != nil {
			s := l.Ledger(mark)
			d := a.agent.diverged.Of(a.spec.Name.Value, l.UID)
			s.Divergences, s.DivergedAt = d.Count, d.Seq
			p.Sinks = append(p.Sinks, s)
		}
	}
}

func (a *attempt) link(uid string) *links.Link {
	for _, l := range a.links {
		if l.UID == uid {
			return l
		}
	}
	return nil
}

// problems picks what needs an operator.
func problems(s *api.Status) (list []string) {
	if why := s.Identity.Fenced; why != "" {
		list = append(list, "this device is FENCED: "+why+"; weir handover export gives what it has not delivered, weir handover retake makes it this gateway again")
	}
	if s.Journal.Failed != "" {
		list = append(list, "the journal failed: "+s.Journal.Failed)
	}
	switch {
	case s.Journal.Waits != "":
		list = append(list, "the journal cannot be written, brokers get no acknowledgements; it is tried each second: "+s.Journal.Waits+"; "+adviceOn(s.Journal.Waits))
	case s.Journal.Full:
		list = append(list, "the journal is full: brokers get no acknowledgements; see which pipeline lags, raise journal.max_bytes or free the disk")
	}
	list = append(list, upgradeProblems(s.Upgrade)...) // a fleet is shown the first problem alone
	list = append(list, flash.Problems(s.Flash)...)
	if p := s.Apply; p != nil && p.State == string(apply.RolledBack) {
		list = append(list, "the last changed config was gone back from: "+p.Reason)
	}
	list = append(list, fleetProblems(s.Fleet)...)
	for _, b := range s.Sessions {
		if b.Error != "" {
			list = append(list, fmt.Sprintf("broker %s: %s", b.Name, b.Error))
		}
		list = append(list, dropProblems(&b)...)
	}
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		if p.Error != "" {
			list = append(list, fmt.Sprintf("pipeline %s is %s: %s", p.Name, p.State, p.Error))
		}
		if p.LagLimit > 0 && p.LagBytes > p.LagLimit {
			list = append(list, fmt.Sprintf("pipeline %s lags about %d journal bytes, lag_limit is %d; see which of its sinks or steps is slow", p.Name, p.LagBytes, p.LagLimit))
		}
		if len(p.StaleLookups) > 0 {
			list = append(list, fmt.Sprintf("pipeline %s goes on with the earlier content of %s: the content is part of its plan, and its checkpoints were made with it; a pipeline of a new name takes the new one",
				p.Name, strings.Join(p.StaleLookups, ", ")))
		}
		if c := p.Central; c != nil && c.Error != "" {
			list = append(list, fmt.Sprintf("pipeline %s, central store: %s", p.Name, c.Error))
		}
		if l := p.Large; l != nil && l.Waits != "" {
			list = append(list, fmt.Sprintf("pipeline %s: its state cannot be written; it is tried each second, and the pipeline waits once its memory is full: %s; %s", p.Name, l.Waits, adviceOn(l.Waits)))
		}
		if p.Checkpoint.InARow > 0 {
			list = append(list, fmt.Sprintf("pipeline %s: the last %d checkpoints failed: %s", p.Name, p.Checkpoint.InARow, p.Checkpoint.LastError))
		}
		if p.Imbalance != "" && p.Lag == 0 {
			list = append(list, fmt.Sprintf("pipeline %s: the ledger does not match: %s; if it stays so at rest, report it", p.Name, p.Imbalance))
		}
		if d := p.Dead; d != nil && d.Sink != nil && d.Sink.Error != "" {
			list = append(list, fmt.Sprintf("pipeline %s, dead letters to %s: %s", p.Name, d.Sink.Stream, d.Sink.Error))
		}
		for _, k := range p.Sinks {
			if k.Full {
				list = append(list, fmt.Sprintf("pipeline %s, sink %s is full: %d of %d bytes wait, on_full: block holds the pipeline up, and what comes in stays in the journal and at the brokers", p.Name, k.UID, k.Bytes, k.BytesMax))
			}
			if strings.Contains(k.Held, "clock") {
				list = append(list, fmt.Sprintf("pipeline %s, sink %s %s", p.Name, k.UID, k.Held))
			}
			if k.Divergences > 0 {
				list = append(list, fmt.Sprintf("pipeline %s, sink %s: result %d, or one before it, was made again and differs from what upstream holds: a step is not deterministic, or the journal was damaged",
					p.Name, k.UID, k.DivergedAt))
			}
			if k.Error != "" && k.UID != exec.DeadSink {
				list = append(list, fmt.Sprintf("pipeline %s, sink %s: %s", p.Name, k.UID, k.Error))
			}
		}
	}
	return list
}

// upgradeProblems tells of an upgrade that did not come to its end, or that needs help.
func upgradeProblems(u *api.UpgradeStatus) []string {
	switch {
	case u == nil:
		return nil
	case u.NotUsable != "":
		return []string{"no pipeline runs: " + u.NotUsable + "; docs/upgrade.md tells the way out"}
	case u.Stands != "":
		return []string{"upgrade " + u.To + " stands while it is " + u.State + ": " + u.Stands + "; docs/upgrade.md tells what to look at"}
	case u.State == "rolled back":
		return []string{"the last upgrade, to " + u.To + ", was gone back from: " + u.Why}
	case u.State == "failed":
		return []string{"the last upgrade, to " + u.To + ", failed: " + u.Why}
	}
	return nil
}

// dropProblems tells what the broker dropped.
func dropProblems(b *api.SessionStatus) (list []string) {
	d := b.Drops
	switch {
	case d == nil:
	case d.Dropped > 0:
		list = append(list, fmt.Sprintf("broker %s dropped %d messages of its clients since the agent started, %d of them around times at which this session was away or held back; raise max_queued_messages there",
			b.Name, d.Dropped, d.Away))
	case d.Error != "":
		list = append(list, fmt.Sprintf("broker %s: how many messages it drops is not known: %s", b.Name, d.Error))
	}
	return list
}

// Ready: the journal is open and every pipeline runs, or has failed for good (then the agent is as ready as it gets).
func (a *Agent) Ready() error {
	for _, s := range a.all() {
		s.mu.Lock()
		state := s.state
		s.mu.Unlock()
		if state == PipelineStarting {
			return fmt.Errorf("pipeline %s is starting", s.name)
		}
	}
	return nil
}

// stuckAfter is how long a running pipeline may stand still while the journal is ahead of it, and none of its sinks
// pushes back, before it counts as stuck.
const stuckAfter = 5 * time.Minute

// errStuck is the answer of Health.
var errStuck = errors.New("no progress")

// Health judges by progress of journal, pipelines and checkpoints, not by being alive. The watchdog is fed while it returns nil; should it not return, it is not fed either.
func (a *Agent) Health() error {
	if st := a.journalStatus(); st.Failed != "" {
		return fmt.Errorf("journal failed: %s", st.Failed)
	}
	now := time.Now()
	if err := a.hangingJournal(now); err != nil {
		return err
	}
	if err := a.upgrader.hangs(); err != nil {
		return err
	}
	for _, s := range a.all() {
		if err := s.hanging(a.working.stepsOf(s.name), now); err != nil {
			return fmt.Errorf("pipeline %s: %w", s.name, err)
		}
		at := s.running()
		if at == nil {
			continue
		}
		if err := at.hanging(now); err != nil {
			return fmt.Errorf("pipeline %s: %w", s.name, err)
		}
	}
	return nil
}
