package exec

import (
	"errors"
	"fmt"
	"runtime"
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
	key      []int  // slots of the key by which the rows will be dealt out; nil: none, or it is not known here
	bytes    []byte // of a key
	*scratch        // where it decodes to
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

// reading is what a record holds. It is small: it is written by one core and read by another.
type reading struct {
	slots []pipeline.Value
	time  int64
	odd   *odd  // nil: an ordinary record, or an entry of another source
	group uint8 // of the key, with a lane's key; keyless: the key has no bytes
}

// keyless is no group.
const keyless = 0xff

// odd is a message that is more or less than a record.
type odd struct {
	reason, detail string // why it is refused; "" is no reason
	parts          []part // not nil: the payload is split into these
}

// part is one of the records of a payload; raw is what a dead letter keeps of it.
type part struct {
	reading
	raw []byte
}

// scratch is what the readings of a batch refer to.
type scratch struct {
	out   *pipeline.Out // gives the slots
	parts []part        // of the payloads with several records; never nil: nor is a run of it
	odds  []odd
	lent  uint32   // the time of the cell for which it is in use
	_     [56]byte // no cache line with the next one
}

func newScratch(out *pipeline.Out) scratch { return scratch{out: out, parts: []part{}} }

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
		runtime.KeepAlive(separate())
		s.lanes = append(s.lanes, newDecodeLane(s.plan))
	}
}

// read decodes a message and finds its event time.
func (s *decodeLane) read(e *pipeline.Entry) reading {
	t := s.decoder(e.Topic)
	if t == nil {
		return s.refused("decoder", "no decoder is configured for this topic")
	}
	if len(s.skips) > 0 {
		if _, skip := slices.BinarySearch(s.skips, e.Pos); skip {
			return s.refused(reasonPoison, detailPoisonDecoder)
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
		return s.one(e, func(slots []pipeline.Value) error { return d.Decode(e.Payload, slots) })
	}
}

// split reads each record of a payload; one that is refused leaves the others alone.
func (s *decodeLane) split(e *pipeline.Entry, d codec.Splitter) reading {
	first := len(s.parts)
	for rest := e.Payload; ; {
		var record []byte
		if record, rest = d.Next(rest); len(record) == 0 {
			return s.several(first)
		}
		if len(s.parts)-first == recordsMax {
			s.parts = s.parts[:first]
			return s.refused("decode", tooManyRecords)
		}
		s.parts = append(s.parts, part{s.one(e, func(slots []pipeline.Value) error { return d.Decode(record, slots) }), record})
	}
}

// follow reads a message of a decoder that goes by those before it.
func (s *decodeLane) follow(e *pipeline.Entry, p *plan.TopicDecoder, d codec.Sequential) reading {
	n, err := d.Open(e.Pos, e.Topic, e.Payload)
	if err != nil {
		return s.refused(decodeReason(err), err.Error())
	}
	if w := d.Wish(); s.ask != nil && w.Kind != codec.WishNothing {
		s.ask(p, e.Pos, w)
	}
	if n == 1 {
		return s.one(e, func(slots []pipeline.Value) error { return d.Record(0, slots) })
	}
	first := len(s.parts)
	for i := range n {
		s.parts = append(s.parts, part{s.one(e, func(slots []pipeline.Value) error { return d.Record(i, slots) }), e.Payload})
	}
	return s.several(first)
}

// several is a payload of the records from first on.
func (s *decodeLane) several(first int) reading {
	return s.odd(odd{parts: s.parts[first:len(s.parts):len(s.parts)]})
}

func (s *decodeLane) refused(reason, detail string) reading {
	return s.odd(odd{reason: reason, detail: detail})
}

func (s *decodeLane) odd(o odd) reading {
	s.odds = append(s.odds, o)
	return reading{odd: &s.odds[len(s.odds)-1]}
}

// recordsMax bounds what a payload may become: a megabyte of line breaks must not become as many rows. A day of one record per second fits.
const recordsMax = 1 << 17

var tooManyRecords = fmt.Sprintf("the payload holds more than %d records", recordsMax)

// one fills the slots of a record.
func (s *decodeLane) one(e *pipeline.Entry, decode func([]pipeline.Value) error) reading {
	slots := s.out.Slots(s.plan.Width)
	if err := decode(slots); err != nil {
		return s.refused(decodeReason(err), err.Error())
	}
	s.fillMeta(e, slots)
	at, reason := eventTime(s.plan.Time, e.Stamp, slots)
	if reason != "" {
		return s.refused("time", reason)
	}
	if s.plan.TimeSlot >= 0 && at != pipeline.NoTime {
		slots[s.plan.TimeSlot] = pipeline.IntValue(at)
	}
	r := reading{slots: slots, time: at}
	if s.key != nil {
		r.group = s.group(slots)
	}
	return r
}

// group finds the group of the row's key while the slots are at hand.
func (s *decodeLane) group(slots []pipeline.Value) uint8 {
	b := s.bytes[:0]
	for _, slot := range s.key {
		var err error
		if b, err = pipeline.AppendKey(b, slots[slot]); err != nil {
			return keyless
		}
	}
	s.bytes = b
	return uint8(pipeline.KeyGroup(b))
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
	clear(m.parts)
	clear(m.odds)
	m.parts, m.odds = m.parts[:0], m.odds[:0]
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
