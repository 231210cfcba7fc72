package central

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/uplink/bucket"
)

// Shipped are the records of a journal that the store lists. Nothing of them is read: their names say it, and whoever may write to the store has written those.
type Shipped struct {
	Journal string
	Last    uint64 // position of the last record
	Pieces  []ShippedPiece
}

// ShippedPiece is one piece of them, by the position of its last record. Bytes are as stored.
type ShippedPiece struct {
	Last  uint64
	Bytes int64
}

// Above counts what has records behind a position.
func (s *Shipped) Above(position uint64) (pieces int, bytes uint64) {
	if s == nil {
		return 0, 0
	}
	for _, p := range s.Pieces {
		if p.Last > position {
			pieces, bytes = pieces+1, bytes+uint64(max(p.Bytes, 0))
		}
	}
	return pieces, bytes
}

// Shipped lists the gateway's shipped records, by journal. It returns an error for a store with more than a collection can name.
func (f *Fetcher) Shipped(ctx context.Context) (all []*Shipped, err error) {
	byJournal, n := map[string]*Shipped{}, 0
	err = bucket.Each(ctx, f.Bucket, NamesOf(f.Gateway).All(KindRecords), func(o bucket.Object) error {
		name, err := Parse(o.Name)
		if err != nil || name.Kind != KindRecords {
			return nil
		}
		if n++; n > refsTotalMax {
			return fmt.Errorf("there are more than %d pieces", refsTotalMax)
		}
		s := byJournal[name.Journal]
		if s == nil {
			s = &Shipped{Journal: name.Journal}
			byJournal[name.Journal], all = s, append(all, s)
		}
		s.Last, s.Pieces = max(s.Last, name.Last), append(s.Pieces, ShippedPiece{name.Last, o.Bytes})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list shipped records of gateway %s: %w", f.Gateway, err)
	}
	for _, s := range all {
		slices.SortFunc(s.Pieces, func(a, b ShippedPiece) int { return cmp.Compare(a.Last, b.Last) })
	}
	slices.SortFunc(all, func(a, b *Shipped) int { return strings.Compare(a.Journal, b.Journal) })
	return all, nil
}
