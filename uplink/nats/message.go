package nats

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/fence"
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
	fence.State
	last uint64 // stream sequence of the last message
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
	m := s.message(kindOpen, st.Incarnation, st.Generation, st.Seq, st.Chain)
	m.Header[headerOpened] = number(st.Opened)
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
	s.last, s.Board = at, h.Get(headerBoard)
	s.Generation = field(headerGeneration)
	s.Seq, s.Opened = field(headerSeq), s.Generation
	switch kind := h.Get(headerKind); kind {
	case kindRow:
	case kindGap:
		s.Seq = field(headerLast)
	case kindOpen:
		s.Opened = field(headerOpened)
	default:
		err = errors.Join(err, fmt.Errorf("%s is %.40q", headerKind, kind))
	}
	var errInc, errChain error
	s.Incarnation, errInc = wire.ParseIncarnation(h.Get(headerIncarnation))
	s.Chain, errChain = wire.ParseChain(h.Get(headerChain))
	if err = errors.Join(err, errInc, errChain); err != nil {
		return s, fmt.Errorf("%w, at stream sequence %d: %w", ErrForeign, at, err)
	}
	return s, nil
}
