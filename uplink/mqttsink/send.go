package mqttsink

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Packet ids of results: a function of the sequence, so that a repeat is known as one. Messages under way at once are never spanMax sequences
// apart: no two of them have one id.
const (
	idsOfResults = 65000
	spanMax      = 30000
)

func (s *Sink) idOf(seq uint64) uint16 {
	return uint16((seq-1+s.plant.freshIDs)%idsOfResults) + 1
}

// message is a result ready to be sent.
type message struct {
	seq, last, chain uint64
	gap              bool
	id               uint16
	start, end       int // of its packet in buf
}

// Send publishes what the run does not hold yet. A connection that was lost meanwhile, or taken over, is made anew once.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if err := s.opening.Admit(b, nil); err != nil { // it never doubts: the connection that it is unsure of is given up
		return uplink.Answer{}, err
	}
	for try := 0; ; try++ {
		if s.conn != nil && s.conn.stale() {
			s.drop()
		}
		if s.conn == nil {
			if err := s.connect(ctx); err != nil {
				return uplink.Answer{}, err
			}
		}
		held, err := s.continues(b)
		if err != nil {
			return uplink.Answer{}, err
		}
		if b.Last <= held {
			return uplink.Answer{Durable: held}, nil
		}
		a, err := s.deliver(ctx, b, held)
		if err == nil || !errors.Is(err, errLost) {
			return a, err
		}
		s.drop()
		if try > 0 || ctx.Err() != nil {
			return uplink.Answer{}, err
		}
	}
}

func (s *Sink) continues(b *uplink.Batch) (uint64, error) {
	if s.plant.noFence {
		return max(b.Previous, s.state.Seq), nil
	}
	return s.state.Continues(s.progressTopic, b)
}

// deliver sends the results behind held, as many at once as the broker wants.
func (s *Sink) deliver(ctx context.Context, b *uplink.Batch, held uint64) (uplink.Answer, error) {
	list, rejected, err := s.pack(b, held)
	if err != nil || len(rejected) > 0 {
		return uplink.Answer{Durable: held, Rejected: rejected}, err
	}
	for len(list) > 0 {
		n := s.groupOf(list)
		if err := s.settleDoubt(ctx, list[:n]); err != nil {
			return uplink.Answer{}, err
		}
		group := list[:n]
		rejected, good, err := s.publish(ctx, group)
		if errors.Is(err, errLost) {
			return uplink.Answer{}, err
		}
		if rejected == nil && err == nil {
			good = n
		} else if s.config.QoS == 2 {
			good = 0 // they stay prepared
		}
		if good > 0 {
			st := s.state
			st.Generation, st.Seq, st.Chain = b.Generation, group[good-1].last, group[good-1].chain
			if commitErr := s.commit(ctx, st, group[:good], n == len(list) || good < n); commitErr != nil {
				return uplink.Answer{}, commitErr
			}
			held = st.Seq
		}
		if err != nil || rejected != nil {
			return uplink.Answer{Durable: held, Rejected: rejected}, err
		}
		list = list[n:]
	}
	s.careful = false
	return uplink.Answer{Durable: held}, nil
}

// pack makes the packets of a batch, and finds what can never be sent.
func (s *Sink) pack(b *uplink.Batch, held uint64) (list []message, rejected []uplink.Rejected, err error) {
	s.buf = s.buf[:0]
	var topic, payload []byte
	for i := range b.Results {
		r := b.Results[i]
		if r.Last <= held {
			continue
		}
		r.Seq = max(r.Seq, held+1)
		p := publish{id: s.idOf(r.Seq), qos: s.config.QoS, dup: r.Seq <= s.doubt}
		if r.Kind == pipeline.ResultGap {
			p.topic = []byte(s.gapTopic)
		} else {
			if topic, err = s.bound.append(topic[:0], r.Payload); err != nil {
				rejected = append(rejected, uplink.Rejected{Seq: r.Seq, Reason: err.Error()})
				continue
			}
			p.topic, p.retain = topic, s.config.Retain
		}
		payload = s.envelope(&p, b, &r, payload[:0])
		if n := p.size(); !s.conn.takes(n) && r.Kind == pipeline.ResultData {
			rejected = append(rejected, uplink.Rejected{Seq: r.Seq, Reason: fmt.Sprintf("packet of %d bytes, the broker takes %d", n, s.conn.limits.packetMax)})
			continue
		}
		start := len(s.buf)
		s.buf = p.append(s.buf)
		list = append(list, message{r.Seq, r.Last, r.Chain, r.Kind == pipeline.ResultGap, p.id, start, len(s.buf)})
	}
	return list, rejected, nil
}

// envelope puts around a row what consumers deduplicate by. payload is scratch.
func (s *Sink) envelope(p *publish, b *uplink.Batch, r *pipeline.Result, payload []byte) []byte {
	if s.config.Envelope == EnvelopeProperties && r.Kind == pipeline.ResultData {
		for _, pair := range [...][2]string{{"weir-stream", b.Stream.String()}, {"weir-generation", strconv.FormatUint(b.Generation, 10)}, {"weir-seq", strconv.FormatUint(r.Seq, 10)}} {
			p.properties = appendText(appendText(append(p.properties, propUser), pair[0]), pair[1])
		}
		p.payload = r.Payload
		return payload
	}
	payload = appendJSON(append(payload, `{"stream":`...), []byte(b.Stream.String()))
	payload = strconv.AppendUint(append(payload, `,"generation":`...), b.Generation, 10)
	payload = strconv.AppendUint(append(payload, `,"seq":`...), r.Seq, 10)
	if r.Kind == pipeline.ResultGap {
		payload = strconv.AppendUint(append(payload, `,"last":`...), r.Last, 10)
		payload = append(payload, `,"gap":`...)
		payload = appendJSON(payload, r.Payload)
	} else {
		payload = append(append(payload, `,"data":`...), r.Payload...)
	}
	payload = append(payload, '}')
	p.payload = payload
	return payload
}

// groupOf is how many messages may be under way at once, with one of the progress.
func (s *Sink) groupOf(list []message) int {
	n := min(len(list), s.config.InflightMax, max(1, s.conn.limits.receiveMax-1))
	if s.careful {
		n = 1
	}
	for i := range n {
		if list[i].seq-list[0].seq >= spanMax {
			return i
		}
	}
	return n
}

// settleDoubt begins a session anew before a gap takes an id under which the broker may have a row prepared: the row would be released in
// its place, now or in 65,000 results.
func (s *Sink) settleDoubt(ctx context.Context, group []message) error {
	if group[0].seq > s.doubt {
		s.doubt = 0
		return nil
	}
	for i := range group {
		if group[i].gap && group[i].seq <= s.doubt {
			s.again = true
			return fmt.Errorf("%w: the session begins anew before a gap", errLost)
		}
	}
	return nil
}

// publish sends a group and waits for all answers. rejected are those that will never be taken, good is how many at the start were taken; the
// error is a refusal for now.
func (s *Sink) publish(ctx context.Context, group []message) (rejected []uplink.Rejected, good int, err error) {
	if err := s.at("publish"); err != nil {
		return nil, 0, err
	}
	want := byte(packetPuback)
	if s.config.QoS == 2 {
		want = packetPubrec
	}
	bad := map[uint16]answer{}
	if s.plant.deaf {
		_, err := s.conn.net.Write(s.buf[group[0].start:group[len(group)-1].end])
		return nil, 0, err
	}
	for i := range group {
		s.conn.pending[group[i].id] = want
	}
	err = s.conn.flight(ctx, s.buf[group[0].start:group[len(group)-1].end], func(_ byte, a answer) {
		if a.reason >= 0x80 {
			bad[a.id] = a
		}
	})
	if err != nil {
		return nil, 0, err
	}
	if err := s.at("published"); err != nil {
		return nil, 0, err
	}
	good = len(group)
	for i := range group {
		a, refused := bad[group[i].id]
		if !refused {
			continue
		}
		good = min(good, i)
		r := &refusal{a.reason, a.text}
		switch {
		case !group[i].gap && (r.hopeless() || r.reason == reasonNotAuthorized && s.config.RejectUnauthorized):
			rejected = append(rejected, uplink.Rejected{Seq: group[i].seq, Reason: "the broker refused it: " + r.Error()})
		case err == nil:
			s.careful = true
			err = fmt.Errorf("publish to %s at %s: %w%s", s.topicOf(&group[i]), s.config.Broker.URL, r, adviceOn(r, false))
		}
	}
	if err != nil {
		rejected = nil // first what can be sent
	}
	return rejected, good, err
}

// topicOf reads the topic of a packed message.
func (s *Sink) topicOf(m *message) string {
	body := s.buf[m.start+1 : m.end]
	if _, rest, err := readVarint(body); err == nil {
		if topic, _, err := readText(rest); err == nil {
			return string(topic)
		}
	}
	return "its topic"
}

// commit says that a group was taken. At QoS 2 that decides, and then releases it. At QoS 1 the progress is written with the last group.
func (s *Sink) commit(ctx context.Context, st progress, group []message, final bool) error {
	if s.config.QoS == 1 {
		st.released = st.Seq
		if !final {
			s.state = st
			return nil
		}
		return s.write(ctx, st)
	}
	if s.plant.earlyRelease {
		if err := s.releaseGroup(ctx, group, false); err != nil {
			return err
		}
	}
	if err := s.write(ctx, st); err != nil {
		return err
	}
	if err := s.at("decided"); err != nil {
		return err
	}
	return s.releaseGroup(ctx, group, false)
}

// release lets go of everything that is decided: a session that was found has it prepared, or released already.
func (s *Sink) release(ctx context.Context, found bool) error {
	var group []message
	if s.state.Seq-s.state.released > spanMax { // never more than a group
		return fmt.Errorf("%w: %d of %d", ErrForeign, s.state.released, s.state.Seq)
	}
	for seq := s.state.released + 1; seq <= s.state.Seq; seq++ {
		group = append(group, message{seq: seq, id: s.idOf(seq)})
	}
	return s.releaseGroup(ctx, group, found)
}

// releaseGroup sends PUBREL for each, and behind them the progress that says so: a broker takes packets in order, so where that
// is, they were.
func (s *Sink) releaseGroup(ctx context.Context, group []message, found bool) error {
	var packets []byte
	for i := range group {
		packets = appendPubrel(packets, group[i].id)
		s.conn.pending[group[i].id] = packetPubcomp
	}
	st, unknown, refused := s.state, 0, error(nil)
	st.released = st.Seq
	packets = s.appendProgress(packets, &st)
	err := s.conn.flight(ctx, packets, func(kind byte, a answer) {
		switch {
		case kind == packetPuback:
			refused = s.progressRefused(a)
		case a.reason >= 0x80:
			unknown++
		}
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case unknown > 0 && !found:
		s.config.Logger.Warn("mqtt broker forgot results before their release", "stream", s.opening.Stream.String(), "count", unknown)
	}
	s.state = st
	return s.at("released")
}
