package exec

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

// decodeLane reads entries of one source: everything about a record that no other record has a say in. Each lane has decoders and caches
// of its own, so that several may decode the parts of a batch side by side.
type decodeLane struct {
	plan     *plan.Source
	decoders []topicDecoder
	*scratch // where it decodes to
	topics   map[string]topicText
	skips    []pipeline.Position                                     // sorted: a decoder panics at their messages, they become dead letters
	at       *pipeline.Entry                                         // being decoded; nil: none
	ask      func(*plan.TopicDecoder, pipeline.Position, codec.Wish) // nil: wishes are not told
}

// topicCacheMax bounds the cache of captured topic levels: topics are chosen by whoever can publish.
const topicCacheMax = 4096

type topicDecoder struct {
	plan    *plan.TopicDecoder
	filter  string // "" matches every topic
	decoder codec.Decoder
}

// reading is what a record holds, or why it is refused; or the records of a payload that may have several. It is small: with several lanes it goes
// from one core to another.
type reading struct {
	slots   []pipeline.Value
	time    int64
	raw     []byte    // what a dead letter keeps of it
	refused *refusal  // nil: it is not
	records []reading // not nil: the payload is split into these, and the rest says nothing
}

type refusal struct{ reason, detail string }

func refusedFor(reason, detail string, raw []byte) reading {
	return reading{raw: raw, refused: &refusal{reason, detail}}
}

// scratch is what the readings of a batch refer to.
type scratch struct {
	out     *pipeline.Out // gives the slots
	several []reading     // of the payloads with several records; never nil: nor is a part of it
	lent    uint32        // the time of the cell for which it is in use
	_       [24]byte      // no cache line with the next one
}

func newScratch(out *pipeline.Out) scratch { return scratch{out: out, several: []reading{}} }

func newDecodeLane(p *plan.Source) *decodeLane {
	l := &decodeLane{plan: p, topics: map[string]topicText{}}
	for i := range p.Decoders {
		d := &p.Decoders[i]
		l.decoders = append(l.decoders, topicDecoder{plan: d, filter: d.Topic, decoder: d.New()})
	}
	return l
}

// divide gives the source a lane for each of n workers, unless one of its decoders goes by the order of the messages.
func (s *source) divide(n int) {
	for _, d := range s.plan.Decoders {
		if d.Ordered {
			return
		}
	}
	for len(s.lanes) < n {
		s.lanes = append(s.lanes, newDecodeLane(s.plan))
	}
}

// read decodes a message and finds its event time.
func (s *decodeLane) read(e *pipeline.Entry) reading {
	t := s.decoder(e.Topic)
	if t == nil {
		return refusedFor("decoder", "no decoder is configured for this topic", e.Payload)
	}
	if len(s.skips) > 0 {
		if _, skip := slices.BinarySearch(s.skips, e.Pos); skip {
			return refusedFor(reasonPoison, detailPoisonDecoder, e.Payload)
		}
	}
	s.at = e
	r := s.decode(e, t)
	s.at = nil
	return r
}

func (s *decodeLane) decode(e *pipeline.Entry, t *topicDecoder) reading {
	switch d := t.decoder.(type) {
	case codec.Sequential:
		return s.follow(e, t.plan, d)
	case codec.Splitter:
		return s.split(e, d)
	default:
		return s.one(e, e.Payload, func(slots []pipeline.Value) error { return d.Decode(e.Payload, slots) })
	}
}

// split reads each record of a payload; one that is refused leaves the others alone.
func (s *decodeLane) split(e *pipeline.Entry, d codec.Splitter) reading {
	first := len(s.several)
	for rest := e.Payload; ; {
		var record []byte
		if record, rest = d.Next(rest); len(record) == 0 {
			return reading{records: s.several[first:len(s.several):len(s.several)]}
		}
		if len(s.several)-first == recordsMax {
			s.several = s.several[:first]
			return refusedFor("decode", tooManyRecords, e.Payload)
		}
		s.several = append(s.several, s.one(e, record, func(slots []pipeline.Value) error { return d.Decode(record, slots) }))
	}
}

// follow reads a message of a decoder that goes by those before it.
func (s *decodeLane) follow(e *pipeline.Entry, p *plan.TopicDecoder, d codec.Sequential) reading {
	n, err := d.Open(e.Pos, e.Topic, e.Payload)
	if err != nil {
		return refusedFor(decodeReason(err), err.Error(), e.Payload)
	}
	if w := d.Wish(); s.ask != nil && w.Kind != codec.WishNothing {
		s.ask(p, e.Pos, w)
	}
	if n == 1 {
		return s.one(e, e.Payload, func(slots []pipeline.Value) error { return d.Record(0, slots) })
	}
	first := len(s.several)
	for i := range n {
		s.several = append(s.several, s.one(e, e.Payload, func(slots []pipeline.Value) error { return d.Record(i, slots) }))
	}
	return reading{records: s.several[first:len(s.several):len(s.several)]}
}

// recordsMax bounds what a payload may become: a megabyte of line breaks must not become as many rows. A day of one record per second fits.
const recordsMax = 1 << 17

var tooManyRecords = fmt.Sprintf("the payload holds more than %d records", recordsMax)

// one fills the slots of a record. raw is what a dead letter keeps of it.
func (s *decodeLane) one(e *pipeline.Entry, raw []byte, decode func([]pipeline.Value) error) reading {
	slots := s.out.Slots(s.plan.Width)
	if err := decode(slots); err != nil {
		return refusedFor(decodeReason(err), err.Error(), raw)
	}
	s.fillMeta(e, slots)
	at, reason := eventTime(s.plan.Time, e.Stamp, slots)
	if reason != "" {
		return refusedFor("time", reason, raw)
	}
	if s.plan.TimeSlot >= 0 && at != pipeline.NoTime {
		slots[s.plan.TimeSlot] = pipeline.IntValue(at)
	}
	return reading{slots: slots, time: at, raw: raw}
}

// readAll decodes those of the entries that are of the lane's source. A panic of a decoder is an error that names the record.
func (s *decodeLane) readAll(entries []pipeline.Entry, into []reading) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.failed(r, debug.Stack())
		}
	}()
	for i := range entries {
		if e := &entries[i]; e.Source == s.plan.Name && e.Kind == pipeline.EntryMessage && len(e.Payload) > 0 {
			into[i] = s.read(e)
		}
	}
	return nil
}

// into has the lane decode to m.
func (s *decodeLane) into(m *scratch) { s.scratch = m }

// forget makes the memory free of the batch before: nobody refers to its readings any more. The slots are the Out's.
func (m *scratch) forget() {
	clear(m.several)
	m.several = m.several[:0]
}

func (s *decodeLane) decoder(name []byte) *topicDecoder {
	for i := range s.decoders {
		if d := &s.decoders[i]; d.filter == "" || topic.Match(d.filter, name) {
			return d
		}
	}
	return nil
}

func decodeReason(err error) string {
	var ce *codec.Error
	if errors.As(err, &ce) {
		return "decode"
	}
	return "decoder"
}
