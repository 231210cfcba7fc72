package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// What the demo waits for at most.
const (
	subscribeWait = rig.Patience
	settleWait    = rig.Patience // a loaded machine; two seconds otherwise
	stopWait      = rig.Patience
)

// run plays and compares; ok is that everything arrived exactly once and as the known answers say. It returns
// context.Canceled when it was interrupted before there was anything to compare.
func run(ctx context.Context, o options, out *screen) (ok bool, err error) {
	s, err := newStage(o)
	if err != nil {
		return false, err
	}
	out.intro(s)
	err = s.play(ctx, out)
	interrupted := o.forever && errors.Is(err, context.Canceled)
	if interrupted && s.oracle.complete() > 0 {
		err = nil
	}
	if err == nil && !interrupted {
		err = s.finish(ctx, out)
	}
	s.o.keep = s.o.keep || err == nil && !s.good()
	err = errors.Join(err, s.close())
	if errors.Is(err, context.Canceled) && !o.keep {
		return false, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err != nil {
		fmt.Fprintf(out.w, "state and logs are kept in %s\n", s.dir)
		return false, err
	}
	ok = out.verdict(s, interrupted)
	if !ok || o.keep {
		fmt.Fprintf(out.w, "state and logs are kept in %s, the receiver's file in %s\n", s.dir, s.upstream)
		return ok, nil
	}
	return ok, os.RemoveAll(s.dir)
}

// good tells that nothing is amiss so far: else the receiver's file is kept for a look.
func (s *stage) good() bool {
	t, _ := s.oracle.counts()
	return t.good()
}

// play publishes, kills and shows until everything is published.
func (s *stage) play(ctx context.Context, out *screen) error {
	if err := s.await(ctx, subscribeWait, s.watcher.subscribed, nil); err != nil {
		return fmt.Errorf("wait for the agent to subscribe: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fed := make(chan error, 1)
	s.wg.Go(func() { fed <- s.feed(ctx) })
	kill := time.NewTimer(s.nextKill())
	defer kill.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-fed:
			return err
		case <-kill.C:
			if err := s.kill(); err != nil {
				return err
			}
			kill.Reset(s.nextKill())
		case <-tick.C:
			if err := s.alive(); err != nil {
				return errors.Join(sleep(ctx, askEvery), err) // Ctrl-C reaches the agent as well: then it is no fault
			}
			if err := s.oracle.read(); err != nil {
				return err
			}
			out.show(s)
		}
	}
}

// finish waits until all is delivered, stops the agent as systemd would, and compares.
func (s *stage) finish(ctx context.Context, out *screen) error {
	quiet := 0
	settled := func() bool {
		b := s.broker.Session("weir-demo")
		if b.Queued+b.InFlight > 0 || !s.watcher.idle() {
			quiet = 0
			return false
		}
		quiet++
		return quiet > 8 // commit: checkpoint shows its results only with the next checkpoint
	}
	err := s.await(ctx, settleWait, settled, func() error { out.show(s); return s.oracle.read() })
	if err != nil {
		return fmt.Errorf("wait for the last results: %w\n%s", err, s.logEnd())
	}
	if err := rig.CheckLedgerAt(ctx, s.socket(), stopWait); err != nil {
		return err
	}
	if err := s.agent.Stop(stopWait); err != nil {
		return fmt.Errorf("stop the agent: %w\n%s", err, s.logEnd())
	}
	if err := s.oracle.read(); err != nil {
		return err
	}
	s.oracle.finish()
	return nil
}

var errTooLong = errors.New("it took too long")

// await polls until f holds.
func (s *stage) await(ctx context.Context, limit time.Duration, f func() bool, meanwhile func() error) error {
	for deadline := time.Now().Add(limit); !f(); {
		if time.Now().After(deadline) {
			return errTooLong
		}
		if err := errors.Join(s.alive(), sleep(ctx, askEvery)); err != nil {
			return err
		}
		if meanwhile != nil {
			if err := meanwhile(); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareRaw reads the file sink: every reading once, in the order of arrival, without the copies.
func (s *stage) compareRaw() (t tally, notes []string, err error) {
	f, err := os.Open(filepath.Join(s.dir, "files", "raw.jsonl"))
	if err != nil {
		return t, nil, fmt.Errorf("open the file sink's file: %w", err)
	}
	defer f.Close()
	t.expected, t.passes = len(s.rec.accepted), 1
	seen := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l struct {
			Seq  int
			Open string
			Data reading
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return t, nil, fmt.Errorf("read the file sink's file: %w", err)
		}
		if l.Open != "" || l.Data.Sensor == closingSensor {
			continue
		}
		id := fmt.Sprintf("%s seq %d", l.Data.key(), l.Data.Seq)
		switch n := t.arrived; {
		case seen[id]:
			t.duplicate++
			notes = append(notes, "twice: "+id)
		case n >= len(s.rec.accepted) || l.Data != s.rec.accepted[n]:
			t.wrong++
			notes = append(notes, "out of order or not as published: "+id)
		}
		t.arrived++
		seen[id] = true
	}
	t.lost = t.expected - len(seen)
	return t, notes[:min(len(notes), 5)], nil
}
