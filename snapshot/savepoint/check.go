package savepoint

import (
	"bytes"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// progress is what Open has seen: tables and sinks come in order, keys rise, results follow one another.
type progress struct {
	f                *File
	buf              buffers
	entries, results uint64

	inResults bool
	of        uint64 // of the last chunk
	key, sub  []byte // last of the table
	begun     bool   // key and sub hold one
	seq       uint64 // last of the sink
}

// chunk checks a chunk and puts it into the index.
func (p *progress) chunk(item []byte, at int64) error {
	c, raw, err := p.f.content(&p.buf, item)
	if err != nil {
		return err
	}
	if err := p.enter(&c); err != nil {
		return err
	}
	n := uint64(0)
	for len(raw) > 0 {
		if p.inResults {
			raw, err = p.result(raw)
		} else {
			raw, err = p.entry(raw)
		}
		if err != nil {
			return err
		}
		n++
	}
	if n != c.Count || n == 0 {
		return fmt.Errorf("%w: chunk of %d elements says %d", ErrCorrupt, n, c.Count)
	}
	if p.inResults {
		p.results += n
	} else {
		p.entries += n
	}
	p.f.chunks = append(p.f.chunks, place{off: at, len: uint32(len(item)), results: p.inResults, of: uint32(c.Of)})
	return nil
}

// enter moves to the table or sink of a chunk: never back.
func (p *progress) enter(c *chunk) error {
	kinds := map[string]int{kindEntries: len(p.f.Head.Tables), kindResults: len(p.f.Head.Sinks)}
	n, known := kinds[c.Kind]
	if !known || c.Of >= uint64(n) {
		return fmt.Errorf("%w: chunk of %q %d", ErrCorrupt, c.Kind, c.Of)
	}
	results := c.Kind == kindResults
	switch {
	case p.inResults && !results, results == p.inResults && c.Of < p.of:
		return fmt.Errorf("%w: chunk of %q %d out of order", ErrCorrupt, c.Kind, c.Of)
	case results && !p.inResults, c.Of != p.of:
		from := p.of + 1
		if results && !p.inResults {
			from = 0
		}
		if results {
			if p.inResults && p.seq != p.f.Head.Sinks[p.of].Seq {
				return p.short(p.of)
			}
			for ; from < c.Of; from++ {
				if s := p.f.Head.Sinks[from]; s.Confirmed != s.Seq {
					return p.short(from)
				}
			}
			p.seq = p.f.Head.Sinks[c.Of].Confirmed
		}
		p.inResults, p.of, p.begun = results, c.Of, false
	}
	return nil
}

func (p *progress) short(sink uint64) error {
	return fmt.Errorf("%w: sink %s: results are missing", ErrCorrupt, p.f.Head.Sinks[sink].UID)
}

// complete checks that no sink lacks its last results.
func (p *progress) complete() error {
	from := uint64(0)
	if p.inResults {
		if p.seq != p.f.Head.Sinks[p.of].Seq {
			return p.short(p.of)
		}
		from = p.of + 1
	}
	for ; from < uint64(len(p.f.Head.Sinks)); from++ {
		if s := p.f.Head.Sinks[from]; s.Confirmed != s.Seq {
			return p.short(from)
		}
	}
	return nil
}

func (p *progress) entry(raw []byte) (rest []byte, err error) {
	key, sub, _, rest, ok := nextEntry(raw)
	if !ok {
		return nil, fmt.Errorf("%w: entry", ErrCorrupt)
	}
	if p.begun && compare(p.key, p.sub, key, sub) >= 0 {
		return nil, fmt.Errorf("%w: table %s/%s: keys do not rise", ErrCorrupt, p.f.Head.Tables[p.of].UID, p.f.Head.Tables[p.of].Name)
	}
	p.key, p.sub, p.begun = append(p.key[:0], key...), append(p.sub[:0], sub...), true
	return rest, nil
}

func (p *progress) result(raw []byte) (rest []byte, err error) {
	var r result
	rest, err = decoding.UnmarshalFirst(raw, &r)
	if err != nil {
		return nil, fmt.Errorf("%w: result: %w", ErrCorrupt, err)
	}
	if again, err := encoding.Marshal(r); err != nil || !bytes.Equal(again, raw[:len(raw)-len(rest)]) {
		return nil, fmt.Errorf("%w: result %d: not the one form of it", ErrCorrupt, r.Seq)
	}
	s := &p.f.Head.Sinks[p.of]
	kind := pipeline.ResultKind(min(r.Kind, math.MaxUint8))
	if r.Seq != p.seq+1 || r.Last < r.Seq || r.Last > s.Seq || kind != pipeline.ResultData && kind != pipeline.ResultGap || kind == pipeline.ResultData && r.Last != r.Seq {
		return nil, fmt.Errorf("%w: sink %s: result %d to %d behind %d", ErrCorrupt, s.UID, r.Seq, r.Last, p.seq)
	}
	p.seq = r.Last
	return rest, nil
}
