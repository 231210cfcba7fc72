package receiver

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// RecordsAfter calls f for each record and gap of a stream behind (generation, seq), in order: how a consumer follows a stream.
// Begin with 0, 0. A gap that lies across seq comes whole. Line.Data and Line.Raw are valid during the call only.
func (r *Receiver) RecordsAfter(s uplink.Stream, generation, seq uint64, f func(generation uint64, l wire.Line) error) error {
	return r.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords).Bucket([]byte(s.String()))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := seekBatch(c, generation, seq); k != nil; k, v = c.Next() {
			g, first, last, err := parseRecordKey(k)
			if err != nil {
				return err
			}
			if g < generation || g == generation && last <= seq {
				continue
			}
			err = wire.Lines(v, first, last, func(l wire.Line) error {
				if g == generation && l.Last <= seq {
					return nil
				}
				return f(g, l)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// seekBatch puts the cursor on the batch that may hold the record behind (generation, seq), which can begin before it.
func seekBatch(c *bolt.Cursor, generation, seq uint64) (k, v []byte) {
	if k, _ = c.Seek(recordKey(generation, seq+1, 0)); k == nil {
		return c.Last()
	}
	if k, v = c.Prev(); k == nil {
		return c.First()
	}
	return k, v
}

// Remove drops the kept records up to and including (generation, seq), batch by batch: one that reaches past seq stays whole. The
// progress stays as it is. Repeating it is harmless; it is durable on return.
func (r *Receiver) Remove(s uplink.Stream, generation, seq uint64) error {
	err := r.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords).Bucket([]byte(s.String()))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.First() {
			g, _, last, err := parseRecordKey(k)
			if err != nil {
				return err
			}
			if g > generation || g == generation && last > seq {
				return nil
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove records of %s: %w", s, err)
	}
	return nil
}
