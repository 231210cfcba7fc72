package mqtt

import (
	"sync"

	"github.com/weirstream/weir/pipeline"
)

// acksWaitingMax bounds the queue: twice the packet id space, which only a broker that breaks the standard can exceed.
const acksWaitingMax = 1 << 17

// waitingAck is an acknowledgement and the position that must be durable before it goes out.
type waitingAck struct {
	pos pipeline.Position
	ack ack
}

// ackQueue holds the acknowledgements of one connection in receive order. Positions never go back in it.
type ackQueue struct {
	mu    sync.Mutex
	queue []waitingAck
	head  int

	kick chan struct{} // look again: more is durable, or something durable was queued
	room chan struct{}
	wait sync.WaitGroup

	writing sync.Mutex // owns out and the order on the wire
	out     []byte
}

// add queues acknowledgements; it reports whether the queue is full.
func (q *ackQueue) add(as ...waitingAck) (full bool) {
	q.mu.Lock()
	if q.head > 0 && len(q.queue)+len(as) > cap(q.queue) {
		n := copy(q.queue, q.queue[q.head:])
		q.queue, q.head = q.queue[:n], 0
	}
	q.queue = append(q.queue, as...)
	full = len(q.queue)-q.head >= acksWaitingMax
	q.mu.Unlock()
	return full
}

// take appends the acknowledgements up to durable to out and returns the position of the last one.
func (q *ackQueue) take(durable pipeline.Position, out []byte) ([]byte, pipeline.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var last pipeline.Position
	for ; q.head < len(q.queue) && q.queue[q.head].pos <= durable; q.head++ {
		out = append(out, q.queue[q.head].ack[:]...)
		last = q.queue[q.head].pos
	}
	if q.head == len(q.queue) {
		q.queue, q.head = q.queue[:0], 0
	}
	select {
	case q.room <- struct{}{}:
	default:
	}
	return out, last
}

// discard empties the queue and returns how many acknowledgements were in it.
func (q *ackQueue) discard() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.queue) - q.head
	q.queue, q.head = nil, 0
	return n
}

// wake makes the acknowledger look. It never blocks.
func (q *ackQueue) wake() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// acknowledge is the goroutine that writes acknowledgements; it ends when the tap is closed. end waits for it.
func (t *tap) acknowledge() {
	for {
		select {
		case <-t.acks.kick:
			t.writeDurable()
		case <-t.done:
			return
		}
	}
}

// writeDurable writes, in one write, the acknowledgements of everything that is durable (R9).
func (t *tap) writeDurable() {
	q, s := &t.acks, t.session
	q.writing.Lock()
	defer q.writing.Unlock()
	durable := s.journal.Durable()
	if s.fault.ackEarly {
		durable = s.journal.Last()
	}
	var last pipeline.Position
	if q.out, last = q.take(durable, q.out[:0]); len(q.out) == 0 {
		return
	}
	if _, err := t.send(q.out); err != nil {
		s.counters.staleAcks.Add(uint64(len(q.out) / len(ack{})))
		return // send has closed the connection, so the reader ends and the session connects anew
	}
	s.counters.acked.Add(uint64(len(q.out) / len(ack{})))
	s.counters.writes.Add(1)
	s.acked.commit(last)
}

// queueAcks queues the acknowledgements of a run, each with the position that must be durable first: its own record's, or, for a message
// without one, that of the record before it in the run, at least before.
func (t *tap) queueAcks(run []arrival, before pipeline.Position) error {
	due := t.due[:0]
	last, qos0 := before, 0
	for i := range run {
		a := &run[i]
		if !a.known {
			last = a.pos
		}
		switch a.qos {
		case 1:
			due = append(due, waitingAck{last, makeAck(packetPuback, a.id)})
		case 2:
			due = append(due, waitingAck{last, makeAck(packetPubrec, a.id)})
		default:
			qos0++
		}
	}
	if s := t.session; qos0 > 0 && s.counters.qos0.Add(uint64(qos0)) == uint64(qos0) {
		s.log.Warn("messages at QoS 0 are at most once")
	}
	if len(due) == 0 {
		return nil
	}
	return t.queueDue(due...)
}

// queueAck has id acknowledged once pos is durable.
func (t *tap) queueAck(packet byte, id uint16, pos pipeline.Position) error {
	return t.queueDue(waitingAck{pos, makeAck(packet, id)})
}

// queueDue queues acknowledgements in the order of their positions and waits while the queue is full.
func (t *tap) queueDue(due ...waitingAck) error {
	full := t.acks.add(due...)
	if due[0].pos <= t.session.journal.Durable() || t.session.fault.ackEarly {
		t.kickDue = true
	}
	for full {
		t.acks.wake()
		select {
		case <-t.acks.room:
			full = false
		case <-t.done:
			return errTapClosed
		}
	}
	return nil
}

// kickIfDue wakes the acknowledger when something durable waits that no commit will announce: duplicates, and what was
// synced between Append and queueAck.
func (t *tap) kickIfDue() {
	if t.kickDue {
		t.kickDue = false
		t.acks.wake()
	}
}
