package ops

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// held is the place of a row that a sort holds; it is the key of the row in the table.
type held struct {
	time  int64
	pos   pipeline.Position
	index uint32
}

const heldBytes = 8 + 8 + 4

func (h held) appendKey(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.time)^1<<63)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.pos))
	return binary.BigEndian.AppendUint32(dst, h.index)
}

func parseHeld(key []byte) (held, error) {
	if len(key) != heldBytes {
		return held{}, fmt.Errorf("%w: sort key of %d bytes, want %d", ErrState, len(key), heldBytes)
	}
	return held{
		time:  int64(binary.BigEndian.Uint64(key) ^ 1<<63),
		pos:   pipeline.Position(binary.BigEndian.Uint64(key[8:])),
		index: binary.BigEndian.Uint32(key[16:]),
	}, nil
}

func (h held) before(o held) bool {
	return cmp.Or(cmp.Compare(h.time, o.time), cmp.Compare(h.pos, o.pos), cmp.Compare(h.index, o.index)) < 0
}

type heldHeap []held

func (h heldHeap) Len() int           { return len(h) }
func (h heldHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h heldHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heldHeap) Push(x any)        { *h = append(*h, x.(held)) }
func (h *heldHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
