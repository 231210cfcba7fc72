//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/fleet/document"
)

// Do carries a command of the fleet out.
func (s *fleetSide) Do(ctx context.Context, o *channel.Order) channel.Outcome {
	s.agent.die("fleet-do-" + o.Do)
	switch o.Do {
	case document.DoSavepoint:
		return s.savepoint(ctx, o)
	case document.DoStop:
		return s.each(ctx, o, s.agent.StopPipeline)
	case document.DoStart:
		return s.each(ctx, o, s.agent.StartPipeline)
	case document.DoRestartPipeline:
		return s.each(ctx, o, s.agent.RestartPipeline)
	case document.DoApply:
		return s.apply(ctx, o)
	case document.DoRestart:
		if err := s.agent.upgrader.busy(); err != nil {
			return refusedBy(err)
		}
		s.restart("command " + o.ID)
		return channel.Outcome{}
	case document.DoDiagnostics:
		return s.diagnose(ctx, o)
	case document.DoRotateKey:
		return s.rotateKey(o)
	}
	return refusedBy(fmt.Errorf("this weir, %s, does not know the command %q", Version(), o.Do))
}

// Resume tells what became of a command that was begun.
func (s *fleetSide) Resume(ctx context.Context, o *channel.Order) channel.Outcome {
	switch o.Do {
	case document.DoRestart:
		if o.Before {
			return channel.Outcome{Result: document.ResultDone, Detail: "version " + Version() + " was started"}
		}
		return channel.Outcome{}
	case document.DoApply:
		return s.applied(o)
	case document.DoRotateKey:
		return s.rotateKey(o)
	case document.DoSavepoint, document.DoDiagnostics: // it was made, and is to be handed in
		return s.Do(ctx, o)
	}
	return channel.Outcome{Result: document.ResultFailed, Detail: "cut short by a restart"}
}

func refusedBy(err error) channel.Outcome {
	return channel.Outcome{Result: document.ResultRefused, Detail: err.Error()}
}

// outcomeOf is of a command that was carried out, or that failed.
func outcomeOf(err error, detail string, files ...string) channel.Outcome {
	if err != nil {
		return channel.Outcome{Result: document.ResultFailed, Detail: strings.TrimSpace(detail + "\n" + err.Error()), Files: files}
	}
	return channel.Outcome{Result: document.ResultDone, Detail: detail, Files: files}
}

// pipelines are those that a command is about.
func (s *fleetSide) pipelines(o *channel.Order) (names []string, err error) {
	if o.Pipeline != "" {
		_, err := s.agent.supervisorsOf(o.Pipeline)
		return []string{o.Pipeline}, err
	}
	for _, sup := range s.agent.all() {
		if !slices.Contains(names, sup.base) {
			names = append(names, sup.base)
		}
	}
	return names, nil
}

// each does the same to each pipeline of a command. One that fails keeps it from none of the others.
func (s *fleetSide) each(ctx context.Context, o *channel.Order, do func(context.Context, string) error) channel.Outcome {
	names, err := s.pipelines(o)
	if err != nil {
		return refusedBy(err)
	}
	var all error
	var good []string
	for _, name := range names {
		if err := do(ctx, name); err != nil {
			all = errors.Join(all, err)
			continue
		}
		good = append(good, name)
	}
	return outcomeOf(all, strings.Join(good, " "))
}

// orderName names what a command makes, the same each time.
func orderName(o *channel.Order) string {
	kind, _, _ := strings.Cut(o.Scope, "/")
	return fmt.Sprintf("fleet-%s-%d-%d", kind, o.Since, o.Serial)
}

// savepoint makes one of each pipeline, or finds those that an earlier try has made, and hands them in.
func (s *fleetSide) savepoint(ctx context.Context, o *channel.Order) channel.Outcome {
	names, err := s.pipelines(o)
	if err != nil {
		return refusedBy(err)
	}
	var all error
	var files, good []string
	for _, name := range names {
		list, err := s.savepointOf(ctx, o, name)
		if all = errors.Join(all, err); err == nil {
			good = append(good, name)
		}
		files = append(files, list...)
	}
	if all == nil && o.Upload {
		handed, later, err := s.handIn(ctx, o, "savepoints", files)
		if later {
			return channel.Outcome{}
		}
		files, all = handed, err
	}
	return outcomeOf(all, strings.Join(good, " "), files...)
}

// savepointOf gives the files of one pipeline's savepoint.
func (s *fleetSide) savepointOf(ctx context.Context, o *channel.Order, name string) (files []string, err error) {
	a := s.agent
	as := api.SavepointOptions{Pipeline: name, Name: orderName(o) + "-" + name}
	supervisors, err := a.supervisorsOf(name)
	if err != nil {
		return nil, err
	}
	there, err := filepath.Glob(filepath.Join(restore.SavepointDir(a.config), globbed(as.Name)+"*"+restore.SavepointSuffix))
	if err != nil {
		return nil, err
	}
	if len(there) >= len(supervisors) { // made by an earlier try
		if o.WithStop {
			err = a.StopPipeline(ctx, name)
		}
		return there, err
	}
	if len(there) > 0 { // of some of its regions: those of an earlier try are of another moment
		as.Name += "-again"
	}
	for _, sup := range supervisors {
		awaitStart(ctx, sup)
	}
	make := a.CreateSavepoint
	if o.WithStop {
		make = a.StopWithSavepoint
	}
	list, err := make(ctx, name, as)
	for _, i := range list {
		if i.File != "" {
			files = append(files, i.File)
		}
	}
	return files, err
}

// startWait bounds how long a command waits for a pipeline that is starting: behind a crash it is carried out as soon as the agent runs.
const startWait = time.Minute

// awaitStart waits while a pipeline is starting.
func awaitStart(ctx context.Context, s *supervisor) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		starting := s.current == nil && (s.state == PipelineStarting || s.state == "")
		s.mu.Unlock()
		if !starting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// globbed is a name in which nothing stands for anything else.
func globbed(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// apply brings a config into force, or tells what it would do. The result has the plan's verdict.
func (s *fleetSide) apply(ctx context.Context, o *channel.Order) channel.Outcome {
	var said strings.Builder
	out := s.agent.Apply(ctx, api.ApplyOptions{File: s.agent.file, Text: []byte(o.Config), AllowDroppedState: o.Allow, DryRun: o.DryRun}, func(e api.ApplyEvent) error {
		tellApply(&said, &e)
		return nil
	})
	if out == nil { // the agent stops: the next process tells
		return channel.Outcome{}
	}
	fmt.Fprintf(&said, "result: %s\n", out.Result)
	if out.Error != "" {
		fmt.Fprintf(&said, "%s\n", ofTheCommand(out.Error, s.agent.file))
	}
	r := channel.Outcome{Result: document.ResultDone, Detail: said.String()}
	switch out.Result {
	case api.ApplyGoneBack:
		r.Result = document.ResultFailed
	case api.ApplyRefused:
		r.Result = document.ResultRefused
	case api.ApplyLosesState:
		if !o.DryRun {
			r.Result = document.ResultRefused
		}
	}
	return r
}

func tellApply(w *strings.Builder, e *api.ApplyEvent) {
	switch {
	case e.Change != "":
		fmt.Fprintf(w, "pipeline %s: %s\n", e.Pipeline, e.Change)
	case e.Doing != "":
		fmt.Fprintf(w, "%s %s\n", e.Pipeline, e.Doing)
	}
	for _, l := range e.Steps {
		fmt.Fprintf(w, "  step %s: %s, %d entries", l.UID, l.Fate, l.Entries)
		if l.Reason != "" {
			fmt.Fprintf(w, ": %s", l.Reason)
		}
		w.WriteByte('\n')
	}
}

// ofTheCommand has errors name the config that came with a command: it is judged under the name of the gateway's own file, where nothing is wrong.
func ofTheCommand(text, file string) string {
	if file == "" { // an agent that was given its config otherwise
		return text
	}
	return strings.ReplaceAll(text, file+":", "the command's config:")
}

// applied tells what became of an apply that a restart cut short.
func (s *fleetSide) applied(o *channel.Order) channel.Outcome {
	cut := channel.Outcome{Result: document.ResultFailed, Detail: "cut short by a restart"}
	cfg, err := config.LoadText(s.agent.file, []byte(o.Config))
	if err != nil {
		return cut
	}
	rec := s.agent.applier.record()
	switch {
	case rec.New != cfg.Digest():
		return cut
	case !rec.Resting():
		return channel.Outcome{}
	case rec.State == apply.Committed:
		return channel.Outcome{Result: document.ResultDone, Detail: "result: committed, over a restart"}
	}
	return channel.Outcome{Result: document.ResultFailed, Detail: "result: gone back from, over a restart: " + rec.Why}
}

// Settled does what follows the result of a command.
func (s *fleetSide) Settled(o *channel.Order) error {
	if o.Do == document.DoRotateKey {
		return s.useNewKey()
	}
	return nil
}
