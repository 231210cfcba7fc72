package exec

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// decodeLane reads entries of one source: everything about a record that no other record has a say in. Each lane has decoders and caches
// of its own, so that several may decode the parts of a batch side by side.
type decodeLane struct {
	plan     *plan.Source
	decoders []topicDecoder
	out      *pipeline.Out // gives the slots
	topics   map[string]topicText
}

// topicCacheMax bounds the cache of captured topic levels: topics are chosen by whoever can publish.
const topicCacheMax = 4096

type topicDecoder struct {
	filter  string // "" matches every topic
	decoder codec.Decoder
}

// reading is what an entry holds, or why it is refused. It is small: with several lanes it goes from one core to another.
type reading struct {
	slots   []pipeline.Value
	time    int64
	refused *refusal // nil: it is not
}

type refusal struct{ reason, detail string }

func refusedFor(reason, detail string) reading { return reading{refused: &refusal{reason, detail}} }

func newDecodeLane(p *plan.Source, out *pipeline.Out) *decodeLane {
	l := &decodeLane{plan: p, out: out, topics: map[string]topicText{}}
	for _, d := range p.Decoders {
		l.decoders = append(l.decoders, topicDecoder{filter: d.Topic, decoder: d.New()})
	}
	return l
}

// divide has the source decode in n lanes, unless one of its decoders goes by the order of the messages.
func (s *source) divide(p *pool, n int) {
	for _, d := range s.plan.Decoders {
		if d.Ordered {
			return
		}
	}
	s.pool = p
	for len(s.lanes) < n {
		s.lanes = append(s.lanes, newDecodeLane(s.plan, pipeline.NewOut("", 0)))
	}
}

func (s *source) reuse() {
	for _, l := range s.lanes {
		l.out.Reuse = true
	}
}

// decodeAhead reads all entries of a batch, each lane a run of them; false when that is not worth it.
func (s *source) decodeAhead(in *Input) (bool, error) {
	n := len(s.lanes)
	if n == 1 || len(in.Entries) < aloneRows {
		return false, nil
	}
	if cap(s.readings) < len(in.Entries) {
		s.readings = make([]reading, len(in.Entries))
	}
	s.readings = s.readings[:len(in.Entries)]
	err := s.pool.do(n, func(part int) error {
		l := s.lanes[part]
		if part > 0 {
			l.out.Reset()
		}
		from, to := share(len(in.Entries), part, n)
		for i := from; i < to; i++ {
			if e := &in.Entries[i]; e.Source == s.plan.Name && e.Kind == pipeline.EntryMessage && len(e.Payload) > 0 {
				s.readings[i] = l.read(e)
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("source %s, positions %d to %d: %w", s.plan.Name, in.First, in.Last, err)
	}
	return true, err
}

// read decodes a message and finds its event time.
func (s *decodeLane) read(e *pipeline.Entry) reading {
	d := s.decoder(e.Topic)
	if d == nil {
		return refusedFor("decoder", "no decoder is configured for this topic")
	}
	slots := s.out.Slots(s.plan.Width)
	if err := d.Decode(e.Payload, slots); err != nil {
		return refusedFor(decodeReason(err), err.Error())
	}
	s.fillMeta(e, slots)
	at, reason := eventTime(s.plan.Time, e.Stamp, slots)
	if reason != "" {
		return refusedFor("time", reason)
	}
	if s.plan.TimeSlot >= 0 && at != pipeline.NoTime {
		slots[s.plan.TimeSlot] = pipeline.IntValue(at)
	}
	return reading{slots: slots, time: at}
}

func (s *decodeLane) decoder(topic []byte) codec.Decoder {
	for i := range s.decoders {
		if d := &s.decoders[i]; d.filter == "" || plan.MatchFilter(d.filter, topic) {
			return d.decoder
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
