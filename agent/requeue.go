package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/store/deadletter"
)

// A requeued message is a journal record like any other, with a new position. Its session is no broker's but names the pipeline and the
// letter: only this pipeline reads it, and after a crash the journal tells whether the letter is in it.

// requeueSession begins the session of a requeued record; no broker's name does.
const requeueSession = "$deadletter/"

func sessionOf(id string, letter uint64) string {
	return requeueSession + id + "/" + strconv.FormatUint(letter, 10)
}

// parseSession is the inverse of sessionOf.
func parseSession(session string) (id string, letter uint64, ok bool) {
	rest, ok := strings.CutPrefix(session, requeueSession)
	if !ok {
		return "", 0, false
	}
	id, number, ok := strings.Cut(rest, "/")
	letter, err := strconv.ParseUint(number, 10, 64)
	return id, letter, ok && err == nil
}

// ownReader leaves out what was requeued by other pipelines.
type ownReader struct {
	pipeline.BlockReader
	id string
}

// Next implements pipeline.BlockReader.
func (r *ownReader) Next(ctx context.Context) (*pipeline.Block, error) {
	b, err := r.BlockReader.Next(ctx)
	if err != nil {
		return nil, err
	}
	cloned := false
	for i := range b.Entries {
		if s := b.Entries[i].Session; len(s) == 0 || s[0] != requeueSession[0] {
			continue
		}
		if id, _, ok := parseSession(b.Entries[i].Session); !ok || id == r.id {
			continue
		}
		if !cloned { // others may read the same block
			b, cloned = &pipeline.Block{First: b.First, Last: b.Last, Entries: slices.Clone(b.Entries)}, true
		}
		b.Entries[i].Source = ""
	}
	return b, nil
}

// requeueMax is how many letters go in one round; each costs three syncs.
const requeueMax = 256

// Requeue puts the messages of the chosen dead letters into the journal again, each exactly once, also across crashes. On return they are durable there
// and no dead letters any more; what the answer refuses has stayed.
func (a *Agent) Requeue(ctx context.Context, name string, q api.RequeueQuery) (answer api.RequeueAnswer, err error) {
	a.requeueing.Lock()
	defer a.requeueing.Unlock()
	answer.Requeued, answer.Refused = []api.Requeued{}, []api.Refused{}
	err = a.withDead(ctx, name, func(d deadOf) error {
		if err := a.settleRequeue(ctx, d); err != nil {
			return err
		}
		if q.Limit <= 0 || q.Limit > requeueMax {
			q.Limit = requeueMax
		}
		var ids []uint64
		var entries []pipeline.Entry
		looked := 0
		err := d.each(q.DeadQuery, func(e *deadletter.Entry, letter []byte) error {
			looked, answer.Last = looked+1, e.ID
			m, err := a.messageOf(e, letter, q.Whole)
			if err != nil {
				answer.Refused = append(answer.Refused, api.Refused{Seq: e.ID, Why: err.Error()})
				return nil
			}
			m.Session = sessionOf(d.id, e.ID)
			ids, entries = append(ids, e.ID), append(entries, m)
			return nil
		})
		if err != nil {
			return err
		}
		answer.More = looked == q.Limit
		done, err := a.putAgain(ctx, d, ids, entries)
		answer.Requeued = append(answer.Requeued, done...)
		return err
	})
	return answer, err
}

// putAgain takes the three steps. What it gives is in the journal and removed.
func (a *Agent) putAgain(ctx context.Context, d deadOf, ids []uint64, entries []pipeline.Entry) (done []api.Requeued, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	after := a.journal.Last()
	a.journal.Retain(requeueSession+d.id, after) // until it is known which are in it
	if err := d.store.BeginRequeue(ctx, after, ids); err != nil {
		return nil, err
	}
	a.die("requeue-begun")
	var in []uint64
	var failed error
	for i := range entries {
		pos, err := a.journal.Append(&entries[i])
		if err != nil {
			failed = fmt.Errorf("requeue dead letter %d: %w", ids[i], err)
			break
		}
		in = append(in, ids[i])
		done = append(done, api.Requeued{Seq: ids[i], Position: uint64(pos)})
		a.die("requeue-appended")
	}
	if err := a.journal.Sync(ctx); err != nil { // not known to be in it: the next requeue, or the next start, finds out
		return nil, fmt.Errorf("requeue dead letters: %w", err)
	}
	a.die("requeue-synced")
	if err := d.store.EndRequeue(ctx, in); err != nil {
		return nil, err
	}
	a.die("requeue-ended")
	a.journal.Release(requeueSession + d.id)
	d.log.Info("dead letters are in the journal again", "letters", len(in))
	return done, failed
}

// settleRequeue ends a requeue that a crash, or a full disk, broke off.
func (a *Agent) settleRequeue(ctx context.Context, d deadOf) error {
	after, ids, begun := d.store.Requeueing()
	if !begun {
		return nil
	}
	if err := a.journal.Sync(ctx); err != nil {
		return fmt.Errorf("settle a requeue: %w", err)
	}
	var in []uint64
	if first := a.journal.First(); first > after+1 {
		d.log.Warn("it is not known whether dead letters were requeued: they stay", "letters", ids, "journal_first", uint64(first), "behind", uint64(after))
	}
	err := a.journal.Scan(after+1, func(e *pipeline.Entry) error {
		if id, letter, ok := parseSession(e.Session); ok && id == d.id && slices.Contains(ids, letter) {
			in = append(in, letter)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("settle a requeue: %w", err)
	}
	if err := d.store.EndRequeue(ctx, in); err != nil {
		return err
	}
	a.journal.Release(requeueSession + d.id)
	d.log.Info("a requeue that was broken off is settled", "letters", len(ids), "in_journal", len(in))
	return nil
}

var (
	errRejected = errors.New("it is a result that upstream refused, no message: export it, and send it upstream yourself")
	errGap      = errors.New("it stands for letters that were dropped")
	errStep     = errors.New("a step refused one row of the message: with --whole the whole message passes the pipeline again, also the steps that took it")
)

// messageOf makes the journal record of a letter. A source's letter has its message, whole or by its head; a step's has its position.
func (a *Agent) messageOf(e *deadletter.Entry, letter []byte, whole bool) (pipeline.Entry, error) {
	if e.Gap {
		return pipeline.Entry{}, errGap
	}
	if e.Reason != "" {
		return pipeline.Entry{}, errRejected
	}
	var l exec.DeadLetter
	if err := json.Unmarshal(letter, &l); err != nil {
		return pipeline.Entry{}, fmt.Errorf("read it: %w", err)
	}
	payload := l.Raw
	if payload == nil {
		payload = []byte(l.Payload)
	}
	source, isSource := strings.CutPrefix(l.Step, "$source/")
	original, err := a.recordAt(pipeline.Position(l.Position))
	switch {
	case isSource && l.Truncated == 0:
		m := pipeline.Entry{Kind: pipeline.EntryMessage, Source: source, Topic: []byte(l.Topic), Payload: payload, QoS: 1}
		if err == nil {
			m.QoS, m.Retain = original.QoS, original.Retain
		}
		return m, nil
	case !isSource && !whole:
		return pipeline.Entry{}, errStep
	case err != nil:
		return pipeline.Entry{}, fmt.Errorf("its message is needed whole, and position %d is in the journal no more", l.Position)
	case original.Kind != pipeline.EntryMessage:
		return pipeline.Entry{}, fmt.Errorf("the journal has only the head of the message at position %d", l.Position)
	}
	return pipeline.Entry{Kind: pipeline.EntryMessage, Source: original.Source, Topic: original.Topic, Payload: original.Payload, QoS: original.QoS, Retain: original.Retain}, nil
}

// errFound ends a scan.
var errFound = errors.New("found")

// recordAt reads one record of the journal.
func (a *Agent) recordAt(at pipeline.Position) (found pipeline.Entry, err error) {
	if at < a.journal.First() || at > a.journal.Durable() {
		return found, pipeline.ErrTrimmed
	}
	err = a.journal.Scan(at, func(e *pipeline.Entry) error {
		found = *e
		return errFound
	})
	if !errors.Is(err, errFound) || found.Pos != at {
		return found, errors.Join(pipeline.ErrTrimmed, err)
	}
	return found, nil
}
