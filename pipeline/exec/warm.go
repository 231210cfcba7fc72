package exec

import "github.com/weirstream/weir/pipeline"

// What another core has written lies in its cache, and to fetch a line from there takes as long as the work on a row. A look at one row after the
// other, each followed by the work on it, waits for each; looks at some rows at once wait about once. So who is about to work on what another
// has made looks at it first, a few rows ahead. The sums are kept only because the looks would be left out else.
const (
	warmRows = 16 // less than what a core can ask for at once would be of no use, and more would push the first ones out again
	// lineValues is how many values of a row lie in one line.
	lineValues = 2
)

// warmSlots looks at the rows of an instance among those that come next, and at the text of their keys.
func warmSlots(rows []pipeline.Row, owners []uint8, me uint8, key []int) (sum uint64) {
	for i := range rows {
		if owners[i] != me {
			continue
		}
		slots := rows[i].Slots
		for n := 0; n < len(slots); n += lineValues {
			sum += slots[n].Num
		}
	}
	for _, slot := range key {
		for i := range rows {
			if owners[i] != me {
				continue
			}
			if text := rows[i].Slots[slot].Str; text != "" {
				sum += uint64(text[0])
			}
		}
	}
	return sum
}
