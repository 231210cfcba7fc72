package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/store/deadletter"
	"github.com/weirstream/weir/uplink"
)

// openDead opens the pipeline's dead letters: rows and records that its steps refused, and results that an upstream refused.
func (a *attempt) openDead(ctx context.Context, dir string) error {
	a.deadLock = a.agent.deadLock(a.id)
	a.deadLock.Lock()
	d, err := a.agent.openDead(dir, a.spec, a.log, a.storageFailed)
	if err != nil {
		a.deadLock.Unlock()
		a.deadLock = nil
		return err
	}
	a.dead = d
	return a.agent.settleRequeue(ctx, a.deadOf())
}

// closeDead lets others open them.
func (a *attempt) closeDead() {
	if a.dead != nil {
		a.tell("close dead letters", a.dead.Close())
	}
	if a.deadLock != nil {
		a.deadLock.Unlock()
		a.deadLock = nil
	}
}

func (a *attempt) deadOf() deadOf { return deadOf{id: a.id.String(), store: a.dead, log: a.log} }

// openDead recovers the dead letters of a pipeline.
func (a *Agent) openDead(dir string, spec *config.Pipeline, logger *slog.Logger, failed func(error)) (*deadletter.Store, error) {
	d, recovered, err := deadletter.Open(deadletter.Options{
		FS: a.fs, Dir: dir, Config: a.deadConfig(&spec.Dead), Stamp: a.clock.Stamp, Codec: a.codec, Logger: logger, Failed: failed, Waiting: func() { a.working.step(spec.Name.Value) },
	})
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	for _, what := range recovered.Damaged {
		logger.Error("dead letter is damaged", "what", what)
	}
	return d, nil
}

// deadSlack is what the log may hold beyond the cap: the segment being written, and marks.
const deadSlack = 8

func (a *Agent) deadConfig(d *config.DeadLetters) deadletter.Config {
	c := deadletter.Default()
	c.Log.ReserveBytes = a.reserve().Results()
	if d.MaxBytes > 0 {
		c.MaxBytes, c.MaxAge = d.MaxBytes, d.MaxAge
	}
	c.Log.MaxBytes = c.MaxBytes + deadSlack*c.Log.SegmentBytes
	return c
}

// keepRejected keeps a result that an upstream refused for good. Durable on return; a repeat is dropped by its sequence.
func (a *attempt) keepRejected(ctx context.Context, d *uplink.DeadLetter) error {
	return a.dead.Append(ctx, &deadletter.Entry{
		Stream: d.Stream.String(), Generation: d.Generation, Seq: d.Result.Seq, Last: d.Result.Last, Pos: d.Result.Pos, Time: d.Result.Time,
		Reason: d.Reason, Payload: d.Result.Payload,
	})
}

// letterOf: an entry without a reason of its own is a letter of the engine already.
func letterOf(e *deadletter.Entry) ([]byte, error) {
	if e.Reason == "" && json.Valid(e.Payload) {
		return e.Payload, nil
	}
	l := exec.DeadLetter{Step: e.Stream, Reason: "rejected", Detail: e.Reason, Position: uint64(e.Pos), Truncated: e.Size - len(e.Payload)}
	if e.Gap {
		l.Reason = "dropped"
	}
	if utf8.Valid(e.Payload) {
		l.Payload = string(e.Payload)
	} else {
		l.Raw = e.Payload
	}
	b, err := json.Marshal(&l)
	if err != nil {
		return nil, fmt.Errorf("encode dead letter %d: %w", e.ID, err)
	}
	return b, nil
}
