package exec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// keyClocks are the clocks of a source with watermark_by: one per key that is not idle (DESIGN.md, "Watermark per key"). The source's task owns
// them. They are a heap by time, whose top is the source's watermark, and a list by the stamp of the last record, whose front goes idle first. Clocks that
// are equal in either are interchangeable there: neither order shows.
type keyClocks struct {
	by             []int // slots of the key
	most           int
	clocks         map[string]*keyClock
	heap           []*keyClock
	oldest, newest *keyClock
	changed        []*keyClock     // since the last save
	gone           map[string]bool // saved keys that went idle since
	scratch        []byte
	far            *farClocks // not nil: they are there
}

type keyClock struct {
	key          string
	timeMax      int64 // ms
	lastElapsed  int64 // ns
	place        int   // in the heap
	older, newer *keyClock
	dirty, saved bool
}

func newKeyClocks(by []int, most int) *keyClocks {
	return &keyClocks{by: by, most: most, clocks: map[string]*keyClock{}, gone: map[string]bool{}}
}

// record takes an accepted record to the clock of its key. refusal: there is no room for its key.
func (k *keyClocks) record(slots []pipeline.Value, at, elapsed int64) (refusal string) {
	k.scratch = k.scratch[:0]
	for _, slot := range k.by {
		var err error
		if k.scratch, err = pipeline.AppendKey(k.scratch, slots[slot]); err != nil {
			return err.Error()
		}
	}
	if state.LargeBuilt && k.far != nil {
		return k.far.record(k.scratch, at, elapsed, k.most)
	}
	c := k.clocks[string(k.scratch)]
	if c == nil {
		if len(k.heap) >= k.most {
			return fmt.Sprintf(noRoomForKey, k.most)
		}
		c = &keyClock{key: string(k.scratch), timeMax: at, lastElapsed: elapsed}
		k.add(c)
	} else {
		k.unlink(c)
		c.lastElapsed = elapsed
		k.link(c)
		if at > c.timeMax {
			c.timeMax = at
			k.sink(c.place)
		}
	}
	if !c.dirty {
		c.dirty = true
		k.changed = append(k.changed, c)
	}
	return ""
}

const noRoomForKey = "%d keys have a watermark, watermark_keys allows no more"

// front is the largest time of the key that is farthest behind.
func (k *keyClocks) front() int64 {
	if state.LargeBuilt && k.far != nil {
		return k.far.front()
	}
	return k.heap[0].timeMax
}

// count is how many keys have a clock.
func (k *keyClocks) count() int {
	if state.LargeBuilt && k.far != nil {
		return k.far.n
	}
	return len(k.heap)
}

// heard is the stamp of the last record of the key that has been silent longest.
func (k *keyClocks) heard() (lastElapsed int64, some bool) {
	switch {
	case state.LargeBuilt && k.far != nil:
		return k.far.oldest()
	case k.oldest == nil:
		return 0, false
	}
	return k.oldest.lastElapsed, true
}

// expire ends the clocks whose last records are not younger than limit, and gives the watermark that follows from w.
func (k *keyClocks) expire(limit, outOfOrderness, w int64) int64 {
	for {
		at, some := k.heard()
		if !some || at > limit {
			return w
		}
		k.expireAt(at)
		if k.count() > 0 {
			w = max(w, k.front()-outOfOrderness)
		}
	}
}

// expireAt ends the clocks whose last record has that stamp: the lowest.
func (k *keyClocks) expireAt(elapsed int64) {
	if state.LargeBuilt && k.far != nil {
		k.far.expireAt(elapsed)
		return
	}
	for k.oldest != nil && k.oldest.lastElapsed == elapsed {
		k.remove(k.oldest)
	}
}

func (k *keyClocks) add(c *keyClock) {
	k.clocks[c.key] = c
	c.place = len(k.heap)
	k.heap = append(k.heap, c)
	k.rise(c.place)
	k.link(c)
}

func (k *keyClocks) remove(c *keyClock) {
	k.unlink(c)
	delete(k.clocks, c.key)
	last := len(k.heap) - 1
	place := c.place
	k.swap(place, last)
	k.heap[last] = nil
	k.heap = k.heap[:last]
	if place < last {
		k.rise(place)
		k.sink(place)
	}
	c.dirty = true // whoever finds it among the changed passes it over
	c.place = -1
	if c.saved {
		k.gone[c.key] = true
	}
}

func (k *keyClocks) link(c *keyClock) {
	c.older, c.newer = k.newest, nil
	if k.newest != nil {
		k.newest.newer = c
	} else {
		k.oldest = c
	}
	k.newest = c
}

func (k *keyClocks) unlink(c *keyClock) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		k.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		k.newest = c.older
	}
}

func (k *keyClocks) swap(a, b int) {
	k.heap[a], k.heap[b] = k.heap[b], k.heap[a]
	k.heap[a].place, k.heap[b].place = a, b
}

func (k *keyClocks) rise(i int) {
	for i > 0 && k.heap[i].timeMax < k.heap[(i-1)/2].timeMax {
		k.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (k *keyClocks) sink(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(k.heap) && k.heap[child].timeMax < k.heap[least].timeMax {
				least = child
			}
		}
		if least == i {
			return
		}
		k.swap(i, least)
		i = least
	}
}

const (
	// keyClockEntry begins the key of a clock's entry; the bytes of its key follow.
	keyClockEntry      = 'k'
	keyClockEntryBytes = 2 * 8
)

// save gives what changed; val nil: it is gone.
func (k *keyClocks) save(put func(key, val []byte) error) error {
	if state.LargeBuilt && k.far != nil {
		return nil // they are in the table
	}
	entry := func(key string) []byte {
		k.scratch = append(append(k.scratch[:0], keyClockEntry), key...)
		return k.scratch
	}
	for key := range k.gone {
		if k.clocks[key] == nil {
			if err := put(entry(key), nil); err != nil {
				return err
			}
		}
	}
	clear(k.gone)
	for _, c := range k.changed {
		if c.place < 0 {
			continue
		}
		c.dirty, c.saved = false, true
		var val [keyClockEntryBytes]byte
		putClock(val[:], c.timeMax, c.lastElapsed)
		if err := put(entry(c.key), val[:]); err != nil {
			return err
		}
	}
	clear(k.changed)
	k.changed = k.changed[:0]
	return nil
}

// load puts an entry back; restored follows the last.
func (k *keyClocks) load(key, val []byte) bool {
	if len(val) != keyClockEntryBytes || k.clocks[string(key)] != nil {
		return false
	}
	timeMax, lastElapsed := clockOf(val)
	if state.LargeBuilt && k.far != nil {
		k.far.hold(key, timeMax, lastElapsed)
		return true
	}
	c := &keyClock{key: string(key), saved: true, timeMax: timeMax, lastElapsed: lastElapsed}
	k.clocks[c.key] = c
	return true
}

// restored rebuilds heap and list.
func (k *keyClocks) restored() {
	all := make([]*keyClock, 0, len(k.clocks))
	for _, c := range k.clocks {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *keyClock) int {
		return cmp.Or(cmp.Compare(a.lastElapsed, b.lastElapsed), cmp.Compare(a.key, b.key))
	})
	for _, c := range all {
		k.add(c)
	}
}

// heard is keyClocks.heard of a source that may have none.
func (s *source) heard() (lastElapsed int64, some bool) {
	if s.keys == nil {
		return 0, false
	}
	return s.keys.heard()
}
