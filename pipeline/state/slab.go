package state

// Records are addressed in units of four bytes: ref = chunk index << chunkUnitBits | unit in the chunk. Ref 0 is none.
const (
	unitBytes     = 4
	chunkUnitBits = 15
	chunkBytes    = unitBytes << chunkUnitBits // 128 KiB: zeroed in 10 us, and 1M keys need some 700
	// largeBytes: a record from here on has a chunk of its own, which is given back at once when it dies. Hence a shared
	// chunk ends with at most a quarter unused, and the copying of one record never makes a compaction step long.
	largeBytes = chunkBytes / 4
	// firstBytes: memory of the first chunk, which doubles up to chunkBytes.
	firstBytes = 1 << 10
)

// slab is an append-only heap of records in chunks without pointers. It does not know what a record is; the table
// tells it the sizes and moves what lives when a chunk is to be emptied.
type slab struct {
	chunks []chunk
	vacant []uint32 // indexes of chunks without memory
	spare  []byte   // one emptied shared chunk, to damp the edges
	open   uint32   // index of the chunk that takes new records; 0: none
	used   int64    // bytes of records, dead or alive
	dead   int64    // bytes of dead records in shared chunks

	victim uint32 // chunk that compaction empties; 0: none
	scan   uint32 // byte in it up to which all is dead
}

type chunk struct {
	mem  []byte
	end  uint32 // bytes handed out
	dead uint32 // bytes of those that are dead
}

// capacity rounds a record's size up so that a growing value moves O(log size) times: the waste is at most an eighth.
// It is a function of the size alone; a record whose capacity would change moves.
func capacity(n int) int {
	step := unitBytes
	for step*16 <= n {
		step *= 2
	}
	return (n + step - 1) &^ (step - 1)
}

// alloc hands out n bytes (a capacity), which may hold anything.
func (s *slab) alloc(n int) uint32 {
	s.used += int64(n)
	if n >= largeBytes {
		return s.addChunk(make([]byte, n), uint32(n)) << chunkUnitBits
	}
	if s.open == 0 || int(s.chunks[s.open].end)+n > chunkBytes {
		s.open = s.addChunk(s.memory(), 0)
	}
	c := &s.chunks[s.open]
	if size := len(c.mem); int(c.end)+n > size { // only the first chunk is ever small
		for size < int(c.end)+n {
			size *= 2
		}
		mem := make([]byte, size)
		copy(mem, c.mem[:c.end])
		c.mem = mem
	}
	ref := s.open<<chunkUnitBits | c.end/unitBytes
	c.end += uint32(n)
	return ref
}

// memory is for a new shared chunk. It may hold old bytes. The first one is small: small tables are small.
func (s *slab) memory() []byte {
	if len(s.chunks) == 0 {
		return make([]byte, firstBytes)
	}
	if mem := s.spare; mem != nil {
		s.spare = nil
		return mem
	}
	return make([]byte, chunkBytes)
}

func (s *slab) addChunk(mem []byte, end uint32) uint32 {
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, chunk{}) // index 0 is none
	}
	i := uint32(len(s.chunks))
	if n := len(s.vacant); n > 0 {
		i = s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		s.chunks[i] = chunk{mem: mem, end: end}
		return i
	}
	if i >= 1<<(32-chunkUnitBits) {
		panic("BUG: a state table of more than 16 GiB")
	}
	s.chunks = append(s.chunks, chunk{mem: mem, end: end})
	return i
}

// at gives the memory from ref on.
func (s *slab) at(ref uint32) []byte {
	return s.chunks[ref>>chunkUnitBits].mem[(ref&(1<<chunkUnitBits-1))*unitBytes:]
}

// free says that the record of capacity n at ref is dead. A chunk in which nothing lives is given back.
func (s *slab) free(ref uint32, n int) {
	i := ref >> chunkUnitBits
	c := &s.chunks[i]
	c.dead += uint32(n)
	if n >= largeBytes {
		s.used -= int64(n)
		s.chunks[i] = chunk{}
		s.vacant = append(s.vacant, i)
		return
	}
	s.dead += int64(n)
	if c.dead == c.end {
		s.drop(i)
	}
}

// drop gives back a shared chunk in which nothing lives. The open one starts again from its beginning.
func (s *slab) drop(i uint32) {
	c := &s.chunks[i]
	s.used -= int64(c.end)
	s.dead -= int64(c.dead)
	if i == s.victim {
		s.victim = 0
	}
	if i == s.open {
		c.end, c.dead = 0, 0
		return
	}
	if s.spare == nil && len(c.mem) == chunkBytes {
		s.spare = c.mem
	}
	s.chunks[i] = chunk{}
	s.vacant = append(s.vacant, i)
}

// sparsest gives the shared chunk with the most dead bytes, the open one excepted; 0 when none has any.
func (s *slab) sparsest() uint32 {
	best, most := uint32(0), uint32(0)
	for i := range s.chunks {
		if c := &s.chunks[i]; c.dead > most && uint32(i) != s.open {
			best, most = uint32(i), c.dead
		}
	}
	return best
}
