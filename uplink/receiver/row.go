package receiver

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirstream/weir/uplink"
)

// row is a stream's progress. It is keyed by stream, without incarnation (RULES 23). FORMAT.md has its bytes.
type row struct {
	generation uint64 // of the run; 0 while nothing was ever taken
	opened     uint64 // highest generation that was opened; ahead of generation until its first batch
	inc        uplink.Incarnation
	seq, chain uint64
	board      string
}

const rowVersion = 1

func (r *row) encode() []byte {
	b := make([]byte, 0, 41+len(r.board))
	b = append(b, rowVersion)
	for _, v := range [...]uint64{r.generation, r.opened, r.seq, r.chain} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, r.inc.Major)
	b = binary.BigEndian.AppendUint32(b, r.inc.Minor)
	return append(b, r.board...)
}

func decodeRow(b []byte) (r row, err error) {
	if len(b) < 41 {
		return r, fmt.Errorf("progress row of %d bytes, want 41 or more", len(b))
	}
	if b[0] != rowVersion {
		return r, fmt.Errorf("progress row of version %d, this receiver knows %d", b[0], rowVersion)
	}
	for i, p := range [...]*uint64{&r.generation, &r.opened, &r.seq, &r.chain} {
		*p = binary.BigEndian.Uint64(b[1+8*i:])
	}
	r.inc = uplink.Incarnation{Major: binary.BigEndian.Uint32(b[33:]), Minor: binary.BigEndian.Uint32(b[37:])}
	r.board = string(b[41:])
	return r, nil
}

// progress is what a sender is told. Before the first batch ever, the run is an empty one of the opened generation.
func (r *row) progress() uplink.Progress {
	p := uplink.Progress{Generation: r.generation, Incarnation: r.inc, Seq: r.seq, Chain: r.chain}
	if r.generation == 0 {
		p.Generation = r.opened
	}
	return p
}

func readRow(tx *bolt.Tx, stream string) (row, bool, error) {
	v := tx.Bucket(bucketProgress).Get([]byte(stream))
	if v == nil {
		return row{}, false, nil
	}
	r, err := decodeRow(v)
	if err != nil {
		return r, false, fmt.Errorf("stream %s: %w", stream, err)
	}
	return r, true, nil
}

func writeRow(tx *bolt.Tx, stream string, r *row) error {
	return tx.Bucket(bucketProgress).Put([]byte(stream), r.encode())
}

// recordKey orders batches by generation and sequence.
func recordKey(generation, first, last uint64) []byte {
	b := make([]byte, 0, 24)
	b = binary.BigEndian.AppendUint64(b, generation)
	b = binary.BigEndian.AppendUint64(b, first)
	return binary.BigEndian.AppendUint64(b, last)
}

func parseRecordKey(k []byte) (generation, first, last uint64, err error) {
	if len(k) != 24 {
		return 0, 0, 0, fmt.Errorf("record key of %d bytes, want 24", len(k))
	}
	return binary.BigEndian.Uint64(k), binary.BigEndian.Uint64(k[8:]), binary.BigEndian.Uint64(k[16:]), nil
}

// verdict is what admit says of a request.
type verdict uint8

const (
	admitted verdict = iota
	known            // nothing new in it: success
	fenced
	hole
)

// fence says whether a sender may speak for the stream: no lower incarnation, no equal one of another board (RULES 28), no
// generation that has ended.
func (r *row) fence(found bool, inc uplink.Incarnation, board string, generation uint64) verdict {
	if found && (inc.Less(r.inc) || inc == r.inc && board != r.board || generation < r.opened) {
		return fenced
	}
	return admitted
}

// admit says what becomes of a batch. A generation that was opened and has no batch yet takes any start, the first one
// begins at 1.
func (r *row) admit(found bool, inc uplink.Incarnation, board string, generation, previous, last uint64) verdict {
	switch {
	case r.fence(found, inc, board, generation) == fenced:
		return fenced
	case !found || r.inc != inc || generation != r.opened:
		return hole // it has not opened: what it assumes is not known
	case generation != r.generation:
		if generation == 1 && previous != 0 {
			return hole
		}
		return admitted
	case previous > r.seq:
		return hole
	case last <= r.seq:
		return known
	}
	return admitted
}
