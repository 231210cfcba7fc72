package exec

// spaced keeps what separate allocates from being optimised away.
type spaced struct {
	plain    []byte
	pointers []*byte
}

// separate puts a gap into the small size classes of the allocator, between what one instance has allocated and what the next one will: two
// cores that write to one cache line for each row take turns with it. Operators are made one behind the other in one goroutine, so that their
// scratch space would lie side by side: the arguments of two tumbling windows, written for each row, 32 bytes apart.
func separate() (keep []spaced) {
	const line = 64
	for size := 8; size <= 2*line; size += 8 {
		for range line/size + 1 {
			keep = append(keep, spaced{plain: make([]byte, size), pointers: make([]*byte, size/8)})
		}
	}
	return keep
}
