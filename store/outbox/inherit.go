package outbox

import (
	"context"
	"errors"

	"github.com/weirstream/weir/pipeline"
)

var errBehind = errors.New("result is of a later record")

// LastUpTo is the last result of a stream that is of records up to a position. All of them must have been emitted; those that upstream is known to hold count, whatever they are of.
func (o *Outbox) LastUpTo(ctx context.Context, uid string, upTo pipeline.Position) (seq uint64, err error) {
	p := o.Pin()
	defer p.Release()
	w, ok := p.Waiting(uid)
	if !ok {
		return 0, nil
	}
	seq = w.Confirmed
	err = p.Copy(ctx, uid, p.streams[uid].Stats().Last, func(r *pipeline.Result) error {
		if r.Pos > upTo {
			return errBehind
		}
		seq = r.Last
		return nil
	})
	if errors.Is(err, errBehind) {
		err = nil
	}
	return seq, err
}

// Inherit replaces StreamOptions.Inherited; before the first Seek.
func (s *Stream) Inherit(i Inherited) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Inherited = i
}
