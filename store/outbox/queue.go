package outbox

import (
	"slices"
	"sort"

	"github.com/weirstream/weir/pipeline"
)

// chunk is a run of consecutive data results. The payloads are in memory, in the log, or both.
type chunk struct {
	first, last uint64
	bytes       int64             // of the payloads; an estimate once the chunk was clipped without being in memory
	at          uint64            // log position of the record, 0 when it was not appended
	recorded    uint64            // first sequence that the record at `at` begins with, after renumbering
	chainBefore uint64            // chain of the result before first (of the record, when clipped)
	chainLast   uint64            // chain of the last result of the record
	elapsed     int64             // ns of agent life when the last result came in: for TTL
	inc         Incarnation       // under which it was written
	results     []pipeline.Result // nil: only in the log
}

func (c *chunk) count() uint64 { return c.last - c.first + 1 }

// gap is a range that is sent as a gap in place of what results lie in it.
type gap struct {
	first, last uint64
	chain       uint64 // chain of the pipeline's own result at last, so that later comparisons still work
	pos         pipeline.Position
	reason      string
	at          uint64 // log position, 0 when not yet appended
	inc         Incarnation
}

// queue is the index of one stream: what lies between the confirmed mark and the last result. It does no I/O; recovery
// and the running stream change it by the same methods.
type queue struct {
	uid        string
	generation uint64
	start      uint64 // sequence after which the generation began
	confirmed  uint64 // upstream holds every sequence up to here, for good
	chain      uint64 // chain at confirmed, 0 unknown
	chunks     []chunk
	gaps       []gap // laid over the chunks; sorted, disjoint
	// ghosts are gaps that a cut made void. Upstream may hold them: they count as dropped when the confirmed mark turns
	// out to lie behind them.
	ghosts                []gap
	boundFirst, boundLast uint64 // batch whose bounds are fixed; 0 none
	confirmedN, droppedN  uint64 // ledger: sequences that left the queue as data, as gaps
	causes                causes // of droppedN
	miscounts             bool   // planted by a test: of each confirmation one result is not counted
	countsVoid            bool   // planted by a test: what a new generation makes void stays counted
	bytes                 int64  // payloads of all chunks
	memory                int64  // payloads that are in memory
	freed                 int64  // payloads in the log that are needed no more and that no marks record says so of
	spare                 [][]pipeline.Result
}

// spareSlices of forgotten chunks are used again; more would only hold memory that a burst once needed.
const spareSlices = 4

// unload lets go of a chunk's payloads and keeps its slice for another chunk.
func (q *queue) unload(c *chunk) {
	if c.results == nil {
		return
	}
	q.memory -= payloadBytes(c.results)
	clear(c.results)
	if len(q.spare) < spareSlices && cap(c.results) <= 4096 {
		q.spare = append(q.spare, c.results[:0])
	}
	c.results = nil
}

// forget keeps the accounts when a chunk leaves the queue; the caller takes it off the list.
func (q *queue) forget(c *chunk) {
	q.unload(c)
	q.bytes -= c.bytes
	if c.at != 0 {
		q.freed += c.bytes + 1
	}
}

// last is the highest sequence that is confirmed or held.
func (q *queue) last() uint64 {
	l := q.confirmed
	if n := len(q.chunks); n > 0 {
		l = max(l, q.chunks[n-1].last)
	}
	if n := len(q.gaps); n > 0 {
		l = max(l, q.gaps[n-1].last)
	}
	return l
}

// addChunk puts a run at the end. Held results with the same or a higher sequence are replaced.
func (q *queue) addChunk(c chunk) {
	if c.last <= q.confirmed {
		return
	}
	if n := len(q.chunks); n > 0 && q.chunks[n-1].last >= c.first {
		q.clipChunks(c.first - 1)
	}
	q.chunks = append(q.chunks, c)
	q.bytes += c.bytes
}

// clipChunks forgets data results past seq.
func (q *queue) clipChunks(seq uint64) {
	for n := len(q.chunks); n > 0 && q.chunks[n-1].last > seq; n = len(q.chunks) {
		c := &q.chunks[n-1]
		if c.first > seq {
			q.forget(c)
			q.chunks[n-1] = chunk{}
			q.chunks = q.chunks[:n-1]
			continue
		}
		before := c.bytes
		if c.results != nil {
			kept := c.results[:seq-c.first+1]
			c.bytes = payloadBytes(kept)
			q.memory += c.bytes - before
			c.chainLast = kept[len(kept)-1].Chain
			clear(c.results[len(kept):])
			c.results = kept
		} else {
			c.chainLast = 0
			c.bytes = int64(float64(c.bytes) * float64(seq-c.first+1) / float64(c.count()))
		}
		q.bytes += c.bytes - before
		c.last = seq
		return
	}
}

// addGap lays a gap over the queue. Parts that are confirmed, or a gap already, stay what they are.
func (q *queue) addGap(g gap) {
	g.first = max(g.first, q.confirmed+1)
	for _, part := range uncovered(q.gaps, g) {
		i := sort.Search(len(q.gaps), func(i int) bool { return q.gaps[i].first > part.first })
		q.gaps = slices.Insert(q.gaps, i, part)
	}
	q.dropCovered()
}

// uncovered gives the parts of g that no gap of the sorted list covers.
func uncovered(gaps []gap, g gap) []gap {
	var parts []gap
	for i := range gaps {
		if gaps[i].last < g.first {
			continue
		}
		if gaps[i].first > g.last || g.first > g.last {
			break
		}
		if gaps[i].first > g.first {
			p := g
			p.last, p.chain = gaps[i].first-1, 0
			parts = append(parts, p)
		}
		if gaps[i].last == ^uint64(0) {
			return parts
		}
		g.first = gaps[i].last + 1
	}
	if g.first <= g.last {
		parts = append(parts, g)
	}
	return parts
}

// dropCovered forgets chunks of which gaps leave nothing.
func (q *queue) dropCovered() {
	q.chunks = slices.DeleteFunc(q.chunks, func(c chunk) bool {
		if q.gapAt(c.first) == nil || len(uncovered(q.gaps, gap{first: c.first, last: c.last})) > 0 {
			return false
		}
		q.forget(&c)
		return true
	})
}

// gapAt gives the gap that holds seq, nil when there is none.
func (q *queue) gapAt(seq uint64) *gap {
	i := sort.Search(len(q.gaps), func(i int) bool { return q.gaps[i].last >= seq })
	if i < len(q.gaps) && q.gaps[i].first <= seq {
		return &q.gaps[i]
	}
	return nil
}

// gapAfter gives the first sequence >= seq that lies in a gap, and the highest sequence when there is none.
func (q *queue) gapAfter(seq uint64) uint64 {
	i := sort.Search(len(q.gaps), func(i int) bool { return q.gaps[i].last >= seq })
	if i < len(q.gaps) {
		return max(seq, q.gaps[i].first)
	}
	return ^uint64(0)
}

// chunkAt gives the index of the chunk that holds seq, -1 when none does.
func (q *queue) chunkAt(seq uint64) int {
	i := sort.Search(len(q.chunks), func(i int) bool { return q.chunks[i].last >= seq })
	if i < len(q.chunks) && q.chunks[i].first <= seq {
		return i
	}
	return -1
}

// missing gives the first sequence in (from, to] that is neither held nor a gap; 0 when the range is whole.
func (q *queue) missing(from, to uint64) uint64 {
	for seq := from + 1; seq <= to && seq != 0; {
		if g := q.gapAt(seq); g != nil {
			seq = g.last + 1
			continue
		}
		i := q.chunkAt(seq)
		if i < 0 {
			return seq
		}
		seq = q.chunks[i].last + 1
	}
	return 0
}

// confirm moves the confirmed mark up to seq and forgets what lies below it. Going back is ignored.
func (q *queue) confirm(seq, chain uint64) {
	if seq <= q.confirmed {
		return
	}
	dropped := q.causes.count(q.gaps, q.confirmed+1, seq)
	for i := range q.ghosts { // where a gap came in the place of a ghost, it counts once
		dropped += q.causes.count(uncovered(q.gaps, q.ghosts[i]), q.confirmed+1, seq)
	}
	q.droppedN += dropped
	q.confirmedN += seq - q.confirmed - dropped
	if q.miscounts && q.confirmedN > 0 {
		q.confirmedN--
	}
	q.confirmed, q.chain = seq, chain
	n := 0
	for n < len(q.chunks) && q.chunks[n].last <= seq {
		q.forget(&q.chunks[n])
		n++
	}
	q.chunks = slices.Delete(q.chunks, 0, n)
	done := func(g gap) bool {
		if g.last <= seq && g.at != 0 {
			q.freed++
		}
		return g.last <= seq
	}
	q.gaps = slices.DeleteFunc(q.gaps, done)
	q.ghosts = slices.DeleteFunc(q.ghosts, done)
	if q.boundLast <= seq {
		q.boundFirst, q.boundLast = 0, 0
	}
}

// waiting counts what lies past the confirmed mark, piece by piece: results, and gaps in their place.
func (q *queue) waiting() (n uint64) {
	gaps := q.gaps
	for i := range q.chunks {
		c := &q.chunks[i]
		n += c.last - max(c.first, q.confirmed+1) + 1
		for len(gaps) > 0 && gaps[0].last < c.first {
			gaps = gaps[1:]
		}
		for j := 0; j < len(gaps) && gaps[j].first <= c.last; j++ {
			n -= min(gaps[j].last, c.last) - max(gaps[j].first, c.first, q.confirmed+1) + 1
		}
	}
	for i := range q.gaps {
		n += q.gaps[i].last - max(q.gaps[i].first, q.confirmed+1) + 1
	}
	return n
}

// cut makes everything past seq void (RULES 9). A higher generation than the queue's begins at seq.
func (q *queue) cut(generation, seq, chain uint64) {
	q.clipChunks(seq)
	var ghosts []gap
	q.gaps = slices.DeleteFunc(q.gaps, func(g gap) bool {
		if g.last <= seq {
			return false
		}
		past := g
		past.first = max(past.first, seq+1)
		ghosts = append(ghosts, past)
		return g.first > seq
	})
	if n := len(q.gaps); n > 0 && q.gaps[n-1].last > seq {
		q.gaps[n-1].last, q.gaps[n-1].chain = seq, chain
	}
	if generation != q.generation {
		if q.generation != 0 {
			q.start = seq
		}
		q.generation, q.ghosts = generation, nil
		q.boundFirst, q.boundLast = 0, 0
		if q.confirmed > seq {
			q.uncount(q.confirmed - seq)
			q.confirmed, q.chain = seq, chain
		}
		return
	}
	for _, g := range ghosts {
		g.first = max(g.first, q.confirmed+1)
		q.ghosts = append(q.ghosts, uncovered(q.ghosts, g)...)
		sort.Slice(q.ghosts, func(i, j int) bool { return q.ghosts[i].first < q.ghosts[j].first })
	}
}

// settle forgets the ghosts past seq: upstream does not hold them.
func (q *queue) settle(seq uint64) {
	q.ghosts = slices.DeleteFunc(q.ghosts, func(g gap) bool { return g.first > seq })
	if n := len(q.ghosts); n > 0 && q.ghosts[n-1].last > seq {
		q.ghosts[n-1].last = seq
	}
}

// drop forgets the entries that were written under an incarnation (RULES 26).
func (q *queue) drop(inc Incarnation) {
	q.chunks = slices.DeleteFunc(q.chunks, func(c chunk) bool {
		if c.inc != inc {
			return false
		}
		q.forget(&c)
		return true
	})
	of := func(g gap) bool { return g.inc == inc }
	q.gaps = slices.DeleteFunc(q.gaps, of)
	q.ghosts = slices.DeleteFunc(q.ghosts, of)
}

// renumber moves everything from a sequence on up by delta.
func (q *queue) renumber(from, delta uint64) {
	for i := range q.chunks {
		c := &q.chunks[i]
		if c.first < from {
			continue
		}
		c.first, c.last, c.recorded = c.first+delta, c.last+delta, c.recorded+delta
		for j := range c.results {
			c.results[j].Seq += delta
			c.results[j].Last += delta
		}
	}
	for i := range q.gaps {
		if q.gaps[i].first >= from {
			q.gaps[i].first += delta
			q.gaps[i].last += delta
		}
	}
}

// oldestAt is the lowest log position that the queue needs, the highest number when it needs none.
func (q *queue) oldestAt() uint64 {
	at := ^uint64(0)
	for i := range q.chunks {
		if a := q.chunks[i].at; a != 0 {
			at = min(at, a)
			break // positions rise along the list
		}
	}
	for _, list := range [...][]gap{q.gaps, q.ghosts} {
		for i := range list {
			if list[i].at != 0 {
				at = min(at, list[i].at)
			}
		}
	}
	return at
}

func (q *queue) markEntry() markEntry {
	return markEntry{uid: q.uid, generation: q.generation, start: q.start, confirmed: q.confirmed, chain: q.chain,
		boundFirst: q.boundFirst, boundLast: q.boundLast, confirmedN: q.confirmedN, droppedN: q.droppedN, causes: q.causes}
}

// restoreMark takes a marks record's line over.
func (q *queue) restoreMark(m *markEntry) {
	if m.generation < q.generation {
		return
	}
	if m.generation > q.generation {
		q.generation, q.start = m.generation, m.start
	}
	q.confirm(m.confirmed, m.chain)
	q.confirmedN, q.droppedN, q.causes = m.confirmedN, m.droppedN, m.causes
	q.boundFirst, q.boundLast = m.boundFirst, m.boundLast
}

func payloadBytes(results []pipeline.Result) (n int64) {
	for i := range results {
		n += int64(len(results[i].Payload))
	}
	return n
}
