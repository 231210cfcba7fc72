package savepoint

import (
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// progress is what Open has seen: sinks, then tables come in order, results follow one another, keys rise.
type progress struct {
	f                *File
	buf              buffers
	entries, results uint64

	inEntries bool
	of        uint64 // sink or table of the last chunk
	seq       uint64 // last of the sink
	key, sub  []byte // last of the table
	begun     bool   // they hold one
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
		if p.inEntries {
			raw, err = p.entry(raw)
		} else {
			raw, err = p.result(raw)
		}
		if err != nil {
			return err
		}
		n++
	}
	if n != c.Count || n == 0 {
		return fmt.Errorf("%w: chunk of %d elements says %d", ErrCorrupt, n, c.Count)
	}
	if p.inEntries {
		p.entries += n
	} else {
		p.results += n
	}
	p.f.chunks = append(p.f.chunks, place{off: at, len: uint32(len(item)), count: uint32(n), results: !p.inEntries, of: uint32(c.Of)})
	return nil
}

// enter moves to the sink or table of a chunk: never back. Results come first.
func (p *progress) enter(c *chunk) error {
	switch c.Kind {
	case kindResults:
		if p.inEntries || c.Of < p.of || c.Of >= uint64(len(p.f.Head.Sinks)) {
			return fmt.Errorf("%w: results of sink %d out of order", ErrCorrupt, c.Of)
		}
		return p.passTo(c.Of)
	case kindEntries:
		if err := p.complete(); err != nil {
			return err
		}
		if c.Of < p.of || c.Of >= uint64(len(p.f.Head.Tables)) {
			return fmt.Errorf("%w: entries of table %d out of order", ErrCorrupt, c.Of)
		}
		if c.Of != p.of {
			p.of, p.begun = c.Of, false
		}
		return nil
	}
	return fmt.Errorf("%w: chunk of %q", ErrCorrupt, c.Kind)
}

// passTo moves on to a sink; those that are passed must have all their results.
func (p *progress) passTo(sink uint64) error {
	for ; p.of < sink; p.of++ {
		if p.of >= uint64(len(p.f.Head.Sinks)) {
			return nil
		}
		if p.seq < p.f.Head.Sinks[p.of].Seq {
			return fmt.Errorf("%w: sink %s: results are missing", ErrCorrupt, p.f.Head.Sinks[p.of].UID)
		}
		p.seq = 0
		if next := p.of + 1; next < uint64(len(p.f.Head.Sinks)) {
			p.seq = p.f.Head.Sinks[next].Confirmed
		}
	}
	return nil
}

// complete checks that every sink has all its results, once; then come the tables.
func (p *progress) complete() error {
	if p.inEntries {
		return nil
	}
	err := p.passTo(uint64(len(p.f.Head.Sinks)))
	p.inEntries, p.of, p.begun = true, 0, false
	return err
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
	if rest, err = r.read(raw); err != nil {
		return nil, fmt.Errorf("%w: result: %w", ErrCorrupt, err)
	}
	s := &p.f.Head.Sinks[p.of]
	kind := pipeline.ResultKind(min(r.Kind, math.MaxUint8))
	if r.Seq != p.seq+1 || r.Last < r.Seq || r.Last > s.Seq || kind != pipeline.ResultData && kind != pipeline.ResultGap || kind == pipeline.ResultData && r.Last != r.Seq {
		return nil, fmt.Errorf("%w: sink %s: result %d to %d behind %d", ErrCorrupt, s.UID, r.Seq, r.Last, p.seq)
	}
	p.seq = r.Last
	return rest, nil
}
