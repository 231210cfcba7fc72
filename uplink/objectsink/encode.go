package objectsink

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// encode makes the object of the results behind held. It is valid until the next call.
func (s *Sink) encode(b *uplink.Batch, held uint64) (body []byte, rejected []uplink.Rejected, err error) {
	s.body = s.body[:0]
	if s.csv != nil {
		s.body, rejected = s.csv.encode(s.body, b, held)
	} else {
		s.body = appendLines(s.body, b, held)
	}
	if len(rejected) > 0 {
		return nil, rejected, nil
	}
	body, err = s.pack.pack(s.body)
	if cap(s.body) > bodyKept {
		s.body = nil // a rare large batch does not stay in memory
	}
	return body, nil, err
}

// bodyKept is how much memory for a batch is kept for the next one.
const bodyKept = 1 << 20

// appendLines appends the results behind held as JSON lines.
func appendLines(dst []byte, b *uplink.Batch, held uint64) []byte {
	for i := range b.Results {
		r := b.Results[i]
		if r.Last > held {
			r.Seq = max(r.Seq, held+1)
			dst = wire.AppendResult(dst, &r)
		}
	}
	return dst
}

// firstTime is the event time of the first row behind held that has one.
func firstTime(b *uplink.Batch, held uint64) int64 {
	for i := range b.Results {
		if r := &b.Results[i]; r.Last > held && r.Kind == pipeline.ResultData && r.Time != pipeline.NoTime {
			return r.Time
		}
	}
	return pipeline.NoTime
}
