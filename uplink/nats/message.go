package nats

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// Headers of a message; FORMAT.md says which kind has which.
const (
	headerKind        = "Weir-Kind"
	headerGeneration  = "Weir-Generation"
	headerOpened      = "Weir-Opened"
	headerIncarnation = "Weir-Incarnation"
	headerBoard       = "Weir-Board"
	headerSeq         = "Weir-Seq"
	headerLast        = "Weir-Last"
	headerChain       = "Weir-Chain"

	kindRow  = "row"
	kindGap  = "gap"
	kindOpen = "open"
)

// ErrForeign says that the subject's last message is not weir's.
var ErrForeign = errors.New("the subject holds a message that is not weir's")

// state is what the subject's last message tells, and its place in the JetStream stream.
type state struct {
	inc        uplink.Incarnation
	board      string
	opened     uint64
	generation uint64 // of the run; 0: nothing on the subject
	seq, chain uint64
	last       uint64 // stream sequence of the last message
}

// admit says whether an incarnation may open on this state.
func (s *state) admit(inc uplink.Incarnation, generation uint64, board string) error {
	if inc.Less(s.inc) || generation < s.opened {
		return fmt.Errorf("%w: the subject is at generation %d, incarnation %s", uplink.ErrFenced, s.opened, s.inc)
	}
	if s.opened > 0 && inc == s.inc && board != s.board {
		return fmt.Errorf("%w: incarnation %s is another board's", uplink.ErrFenced, s.inc)
	}
	return nil
}

func number(n uint64) []string { return []string{strconv.FormatUint(n, 10)} }

// message makes a message without a kind's own headers.
func (s *Sink) message(kind string, inc uplink.Incarnation, generation, seq, chain uint64) *nats.Msg {
	return &nats.Msg{Subject: s.subject, Header: nats.Header{headerKind: {kind}, headerGeneration: number(generation), headerIncarnation: {inc.String()},
		headerBoard: {s.config.Board}, headerSeq: number(seq), headerChain: {wire.FormatChain(chain)}, "Nats-Expected-Stream": {s.config.Stream}}}
}

func (s *Sink) resultMessage(b *uplink.Batch, r *pipeline.Result) *nats.Msg {
	kind := kindRow
	if r.Kind == pipeline.ResultGap {
		kind = kindGap
	}
	m := s.message(kind, b.Incarnation, b.Generation, r.Seq, r.Chain)
	if kind == kindGap {
		m.Header[headerLast] = number(r.Last)
	}
	m.Data = r.Payload
	return m
}

func (s *Sink) openMessage(st *state) *nats.Msg {
	m := s.message(kindOpen, st.inc, st.generation, st.seq, st.chain)
	m.Header[headerOpened] = number(st.opened)
	return m
}

// readState reads what a message says of the run.
func readState(h nats.Header, at uint64) (s state, err error) {
	field := func(name string) uint64 {
		n, e := strconv.ParseUint(h.Get(name), 10, 64)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s is %.40q", name, h.Get(name)))
		}
		return n
	}
	s.last, s.board = at, h.Get(headerBoard)
	s.generation = field(headerGeneration)
	s.seq, s.opened = field(headerSeq), s.generation
	switch kind := h.Get(headerKind); kind {
	case kindRow:
	case kindGap:
		s.seq = field(headerLast)
	case kindOpen:
		s.opened = field(headerOpened)
	default:
		err = errors.Join(err, fmt.Errorf("%s is %.40q", headerKind, kind))
	}
	var errInc, errChain error
	s.inc, errInc = wire.ParseIncarnation(h.Get(headerIncarnation))
	s.chain, errChain = wire.ParseChain(h.Get(headerChain))
	if err = errors.Join(err, errInc, errChain); err != nil {
		return s, fmt.Errorf("%w, at stream sequence %d: %w", ErrForeign, at, err)
	}
	return s, nil
}
