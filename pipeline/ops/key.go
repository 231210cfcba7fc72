package ops

import "github.com/weirstream/weir/pipeline"

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
