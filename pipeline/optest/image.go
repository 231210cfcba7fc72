package optest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// image is what the committed checkpoint holds, one entry a line, in order, and what the operator waits for.
func (r *run) image() string {
	var lines []string
	for _, t := range r.tables {
		spec := t.Spec()
		for k, val := range r.saved.tables[spec.Name] {
			if spec.TTL > 0 {
				n := len(val) - 8
				if int64(binary.BigEndian.Uint64(val[n:])) <= max(r.ticked, r.reached)-spec.TTL {
					continue
				}
			}
			lines = append(lines, fmt.Sprintf("%s %x %x %x", spec.Name, k.key, k.sub, val))
		}
	}
	slices.Sort(lines)
	timers, eventTime := r.op.Timers()
	return fmt.Sprintf("%s\ntimers %d %d, %+v\n", strings.Join(lines, "\n"), timers, eventTime, r.result.Counters)
}
