package central

import (
	"container/heap"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Results calls each for the results of a sink that upstream did not hold, in order: (Confirmed, Seq].
func (f *Fetched) Results(sink int, each func(r *pipeline.Result) error) error {
	s := &f.Manifest.Sinks[sink]
	next := s.Confirmed + 1
	for _, p := range s.Parts {
		plain, err := f.piece(p.Ref)
		if err != nil {
			return err
		}
		for len(plain) > 0 {
			var r pipeline.Result
			if r, plain, err = readResult(plain); err != nil {
				return err
			}
			if r.Last < next {
				continue
			}
			if r.Kind == pipeline.ResultGap && r.Seq < next {
				r.Seq = next
			}
			if r.Seq != next || r.Last > s.Seq {
				return fmt.Errorf("%w: sink %s: result %d to %d behind %d", ErrDamaged, s.UID, r.Seq, r.Last, next-1)
			}
			if each != nil {
				if err := each(&r); err != nil {
					return err
				}
			}
			next = r.Last + 1
		}
	}
	if next != s.Seq+1 {
		return fmt.Errorf("%w: sink %s: results %d to %d are missing", ErrDamaged, s.UID, next, s.Seq)
	}
	return nil
}

func (f *Fetched) checkResults() error {
	for i := range f.Manifest.Sinks {
		if err := f.Results(i, nil); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fetched) piece(r Ref) ([]byte, error) {
	b, err := f.scratch.Read(spoolName(KindObject, r.SHA))
	if err != nil {
		return nil, fmt.Errorf("read what was fetched: %w", err)
	}
	return f.codec.open(b, r, f.unseal)
}

// runsMax is how many frames are merged at once: so many pieces are in memory.
const runsMax = 32

// Entries calls each for every entry of the state, in rising order of (table, key, sub). It holds up to 32 pieces; what a pass merges goes through scratch.
func (f *Fetched) Entries(each func(table uint64, key, sub, val []byte) error) error {
	frames := f.frames
	for len(frames) > runsMax {
		out := &runWriter{f: f}
		if err := f.merge(frames[:runsMax], out.add); err != nil {
			return err
		}
		if err := out.close(); err != nil {
			return err
		}
		frames = append([]Frame{out.frame}, frames[runsMax:]...)
	}
	return f.merge(frames, func(e *entry) error {
		if e.deleted {
			return nil
		}
		return each(e.table, e.key, e.sub, e.val)
	})
}

// runWriter writes what a pass gives as a frame into scratch. Deletions stay while an older frame might have the entry: the oldest pass begins with the base, yet what
// it deletes costs little.
type runWriter struct {
	f     *Fetched
	frame Frame
	buf   []byte
}

func (w *runWriter) add(e *entry) error {
	w.buf = e.append(w.buf)
	if len(w.buf) < pieceBytes {
		return nil
	}
	return w.close()
}

func (w *runWriter) close() error {
	if len(w.buf) == 0 {
		return nil
	}
	b, ref, err := w.f.codec.pack(Upload{}, w.buf, nil)
	if err == nil {
		err = w.f.scratch.Write(spoolName(KindObject, ref.SHA), b)
	}
	w.frame.Refs = append(w.frame.Refs, ref)
	w.buf = w.buf[:0]
	return err
}

// run reads one frame.
type run struct {
	f    *Fetched
	rank int
	refs []Ref
	rest []byte
	cur  entry
	last entry // for the order
	any  bool
}

// next moves to the next entry; false: there is none.
func (r *run) next() (bool, error) {
	if len(r.rest) == 0 {
		if len(r.refs) == 0 {
			return false, nil
		}
		var err error
		if r.rest, err = r.f.piece(r.refs[0]); err != nil {
			return false, err
		}
		if r.refs = r.refs[1:]; len(r.rest) == 0 {
			return false, fmt.Errorf("%w: empty piece", ErrDamaged)
		}
	}
	before := r.cur
	var err error
	if r.rest, err = r.cur.read(r.rest); err != nil {
		return false, err
	}
	if r.any && compareEntry(before.table, before.key, before.sub, r.cur.table, r.cur.key, r.cur.sub) >= 0 {
		return false, fmt.Errorf("%w: entries of a frame do not rise", ErrDamaged)
	}
	r.any = true
	return true, nil
}

type runs []*run

func (h runs) Len() int { return len(h) }
func (h runs) Less(i, j int) bool {
	a, b := &h[i].cur, &h[j].cur
	if n := compareEntry(a.table, a.key, a.sub, b.table, b.key, b.sub); n != 0 {
		return n < 0
	}
	return h[i].rank > h[j].rank
}
func (h runs) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(x any)   { *h = append(*h, x.(*run)) }
func (h *runs) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// merge gives the newest entry of each key, in order, deletions too. Entries are those of pieces, which nobody changes.
func (f *Fetched) merge(frames []Frame, each func(e *entry) error) error {
	var h runs
	for i, x := range frames {
		r := &run{f: f, rank: i, refs: x.Refs}
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, r)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		e := h[0].cur
		if err := each(&e); err != nil {
			return err
		}
		for len(h) > 0 {
			c := &h[0].cur
			if compareEntry(e.table, e.key, e.sub, c.table, c.key, c.sub) != 0 {
				break
			}
			ok, err := h[0].next()
			switch {
			case err != nil:
				return err
			case ok:
				heap.Fix(&h, 0)
			default:
				heap.Pop(&h)
			}
		}
	}
	return nil
}
