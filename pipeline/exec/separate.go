package exec

// spaced keeps what separate allocates from being optimised away.
type spaced struct {
	plain    []byte
	pointers []*byte
}

// separate puts a gap into the size classes of the allocator, between what one instance or lane has allocated and what the next one will: two
// cores that write to one cache line for each row take turns with it. Operators are made one behind the other in one goroutine, so that their
// scratch space would lie side by side: the arguments of two tumbling windows, written for each row, 32 bytes apart; or the end of one step, which
// notes the row it works on, and the beginning of the next.
func separate() (keep []spaced) {
	const line, largest = 64, 2048
	for size := 8; size <= largest; size += step2(size) {
		for range line/size + 1 {
			keep = append(keep, spaced{plain: make([]byte, size), pointers: make([]*byte, size/8)})
		}
	}
	return keep
}

// step2 is no more than the distance to the next size class: classes lie an eighth of the size apart.
func step2(size int) int { return max(8, size/16&^7) }
