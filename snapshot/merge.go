package snapshot

import (
	"container/heap"
	"context"
	"fmt"
	"sort"
)

// run is a sorted sequence of entries in chunks, as a store gives it.
type run interface {
	// chunks is how many there are.
	chunks() int
	// body gives the checked body of chunk i. It is valid until the next call.
	body(ctx context.Context, i int) ([]byte, error)
	// close gives up what the run holds open. Its body must not be used afterwards.
	close()
}

// layer is a run with its place in time: of two entries with one key, that of the higher checkpoint wins.
type layer struct {
	run
	checkpoint uint64
}

// layerReader walks one layer, leaving out tables that keep does not want.
type layerReader struct {
	layer
	rank  int // among the layers; rises with time
	index int
	body  bodyReader
	keep  func(checkpoint uint64, e *entry) verdict
}

type verdict uint8

const (
	take verdict = iota
	skip
	stop // and all that follows
)

// next moves to the next wanted entry.
func (l *layerReader) next(ctx context.Context) (bool, error) {
	for {
		ok, err := l.body.next()
		if err != nil {
			return false, err
		}
		if !ok {
			if l.index >= l.chunks() {
				return false, nil
			}
			b, err := l.layer.body(ctx, l.index)
			if err != nil {
				return false, err
			}
			l.index++
			l.body = newBodyReader(b)
			continue
		}
		switch l.keep(l.checkpoint, &l.body.cur) {
		case take:
			return true, nil
		case stop:
			l.index, l.body = l.chunks(), bodyReader{}
			return false, nil
		}
	}
}

// seek finds the first chunk that may hold entries of a table.
func (l *layerReader) seek(ctx context.Context, uid, table string) error {
	var failed error
	// The first chunk that begins with the table or behind it; the one before may hold its first entries.
	n := sort.Search(l.chunks(), func(i int) bool {
		if failed != nil {
			return true
		}
		b, err := l.layer.body(ctx, i)
		if err != nil {
			failed = err
			return true
		}
		e, err := firstTable(b)
		if err != nil {
			failed = err
			return true
		}
		return e.compareTable(uid, table) >= 0
	})
	l.index = max(n-1, 0)
	return failed
}

// readers is a heap of layers by their current entry; of equal ones the newest comes first.
type readers []*layerReader

func (r readers) Len() int { return len(r) }
func (r readers) Less(i, j int) bool {
	if c := r[i].body.cur.compare(&r[j].body.cur); c != 0 {
		return c < 0
	}
	return r[i].rank > r[j].rank
}
func (r readers) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *readers) Push(x any)   { *r = append(*r, x.(*layerReader)) }
func (r *readers) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}

// mergeLayers calls f for the newest entry of each key, in order, deletions too. layers are in the order of time. It
// holds one chunk per layer. e is valid during the call.
func mergeLayers(ctx context.Context, layers []*layerReader, f func(e *entry) error) error {
	var h readers
	for i, l := range layers {
		l.rank = i
		ok, err := l.next(ctx)
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", l.checkpoint, err)
		}
		if ok {
			h = append(h, l)
		}
	}
	heap.Init(&h)
	advance := func() error {
		ok, err := h[0].next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("checkpoint %d: %w", h[0].checkpoint, err)
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
		return nil
	}
	var last entry // a copy: the winner's chunk may be replaced while older ones are passed over
	for n := 0; len(h) > 0; n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		e := &h[0].body.cur
		if err := f(e); err != nil {
			return err
		}
		last.uid, last.table = append(last.uid[:0], e.uid...), append(last.table[:0], e.table...)
		last.key, last.sub = append(last.key[:0], e.key...), append(last.sub[:0], e.sub...)
		for len(h) > 0 && h[0].body.cur.compare(&last) == 0 {
			if err := advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// inManifest keeps what belongs to a checkpoint: entries of its tables, written since the table's Since.
func inManifest(m *Manifest) func(uint64, *entry) verdict {
	since := map[string]uint64{}
	for _, t := range m.Tables {
		since[t.UID+"\x00"+t.Spec.Name] = t.Since
	}
	var name []byte
	return func(checkpoint uint64, e *entry) verdict {
		name = append(append(append(name[:0], e.uid...), 0), e.table...)
		from, ok := since[string(name)]
		if !ok || checkpoint < from {
			return skip
		}
		return take
	}
}

// ofTable keeps one table.
func ofTable(t TableMeta) func(uint64, *entry) verdict {
	return func(checkpoint uint64, e *entry) verdict {
		switch c := e.compareTable(t.UID, t.Spec.Name); {
		case c > 0:
			return stop
		case c < 0 || checkpoint < t.Since:
			return skip
		}
		return take
	}
}
