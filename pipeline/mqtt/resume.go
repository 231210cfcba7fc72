package mqtt

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// connack takes the broker's word on the session, before the first re-sent packet is read (R3, RULES 4 to 6).
func (t *tap) connack(present bool) error {
	t.connackAt.Store(time.Now().UnixNano())
	t.present = present
	s := t.session
	e := evFresh
	if present {
		e = evPresent
	}
	s.mu.Lock()
	s.table.untouch()
	lost := !present && len(s.granted) > 0
	granted := s.granted
	var do action
	if s.machine, do = next(s.machine, e); s.fault.trustPresent && present && len(s.granted) > 0 {
		s.machine.phase, s.machine.known, do = phaseReady, true, 0
	}
	if s.fault.noSweep && do&actPing != 0 {
		s.machine.phase, do = phaseSubscribing, actSubscribe
	}
	if do&actVoid != 0 {
		s.table.clear()
		s.order = idOrder{}
		s.granted = nil
	}
	s.mu.Unlock()
	if do&actVoid != 0 {
		t.entry = pipeline.Entry{Kind: pipeline.EntrySession, Session: s.config.Name}
		if _, err := t.append(&t.entry); err != nil {
			return err
		}
	}
	if lost {
		if err := t.reportLost(granted); err != nil {
			return err
		}
	}
	if do&actPing != 0 {
		if _, err := t.send([]byte{packetPingreq << 4, 0}); err != nil {
			return err
		}
	}
	return nil
}

// reportLost says in the log and in the journal that the broker forgot the session: one gap per source.
func (t *tap) reportLost(granted []subscription) error {
	s := t.session
	s.counters.sessionLost.Add(1)
	s.log.Error("MQTT session lost: the broker forgot the client; messages published since the last receive time may be missing",
		"client_id", s.config.ClientID, "last_received", s.lastReceived().UTC().Format(time.RFC3339))
	text := "MQTT session lost: broker " + s.config.Name + " forgot client " + s.config.ClientID +
		"; messages published since " + s.lastReceived().UTC().Format(time.RFC3339) + " may be missing"
	for _, source := range s.config.Sources {
		for _, g := range granted {
			if g.filter != source.Filter {
				continue
			}
			t.entry = pipeline.Entry{Kind: pipeline.EntryGap, Session: s.config.Name, Source: source.Name, Payload: []byte(text)}
			if _, err := t.append(&t.entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// pong takes a PINGRESP: the answer to our own PINGREQ ends the sweep (RULES 6), the others are paho's.
func (t *tap) pong(h header) error {
	if _, err := t.body(h, 0); err != nil {
		return err
	}
	s := t.session
	if t.resent && t.arrived.Load() < sweepMessagesMax && s.phase() == phaseSweeping && !s.fault.sweepOnce {
		return t.sweepOn()
	}
	s.mu.Lock()
	var do action
	s.machine, do = next(s.machine, evPong)
	if do&actForget == 0 {
		s.mu.Unlock()
		t.pass(h, nil)
		t.anchorDue = true // a session without messages has PINGs
		return t.anchor()
	}
	var keep []uint16
	s.table.ids(func(id uint16) {
		if s.table.wasTouched(id) {
			keep = append(keep, id)
		}
	})
	dropped := s.table.keepOnly(s.table.wasTouched)
	s.mu.Unlock()
	s.counters.forgotten.Add(uint64(dropped))
	// Written even when nothing was dropped here: an earlier attempt may have failed between the table and the journal.
	t.entry = pipeline.Entry{Kind: pipeline.EntryForget, Session: s.config.Name, Payload: encodeForget(keep)}
	if _, err := t.append(&t.entry); err != nil {
		return err
	}
	t.tell(tapSwept)
	return nil
}

// sweepMessagesMax ends a sweep on a broker that sends everything with DUP=1, new messages too: no more than 65,535 can have been
// in flight.
const sweepMessagesMax = 1 << 16

// sweepOn goes on with the sweep when its last round brought something from before the connection. A broker re-sends no more at once than
// its window holds (mosquitto 2.0.11 with more in flight than max_inflight_messages); what is behind comes as acknowledgements
// make room. So they go out first, then PINGREQ again. A round that brings nothing old ends the sweep; since what is in flight
// is finite, there is one.
func (t *tap) sweepOn() error {
	t.resent = false
	ctx, cancel := context.WithTimeout(context.Background(), t.session.config.StopTimeout)
	defer cancel()
	if err := t.flush(ctx); err != nil {
		return fmt.Errorf("acknowledge what was sent again: %w", err)
	}
	_, err := t.send([]byte{packetPingreq << 4, 0})
	return err
}
