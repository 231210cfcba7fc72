package ops

import (
	"github.com/weirstream/weir/pipeline"
)

// appendKeySlots appends the key of a row. It fails only for an Error value, which never stands in a row.
func appendKeySlots(dst []byte, slots []pipeline.Value, key []int) []byte {
	for _, s := range key {
		var err error
		if dst, err = pipeline.AppendKey(dst, slots[s]); err != nil {
			panic("BUG: an error value stands in a row")
		}
	}
	return dst
}

// elapsedSince tells whether ttl ns have gone by at now since then; a ttl of 0 never ends.
func elapsedSince(then, now, ttl int64) bool { return ttl > 0 && now-then >= ttl }
