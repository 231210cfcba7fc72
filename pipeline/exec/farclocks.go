package exec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline/state"
)

// farClocks are the clocks of a source whose keys do not fit the memory. Each is an entry of the source's table, as it is in a checkpoint; the queues have
// (largest time, key) and (stamp of the last record, key).
type farClocks struct {
	table           *state.Table
	byTime, byStamp *state.Queue
	n               int
	entry, at       []byte // scratch
	stuck           bool   // planted by a test: a clock that goes on is not known to
}

// beside puts the clocks where the source's table is, when that does not fit the memory. It comes before the first load.
func (k *keyClocks) beside(t *state.Table) {
	if state.LargeBuilt && t.Large() {
		k.far = &farClocks{table: t, byTime: t.NewQueue(), byStamp: t.NewQueue()}
	}
}

func (f *farClocks) entryOf(key []byte) []byte {
	f.entry = append(append(f.entry[:0], keyClockEntry), key...)
	return f.entry
}

// member is one of a queue: an instant and a key.
func (f *farClocks) member(at int64, key []byte) []byte {
	f.at = append(state.AppendOrdered(f.at[:0], at), key...)
	return f.at
}

// record is keyClocks.record.
func (f *farClocks) record(key []byte, at, elapsed int64, most int) (refusal string) {
	val, known := f.table.Get(f.entryOf(key))
	switch {
	case !known && f.n >= most:
		return fmt.Sprintf(noRoomForKey, most)
	case !known:
		f.hold(key, at, elapsed)
	default:
		timeMax, lastElapsed := clockOf(val)
		if elapsed != lastElapsed {
			f.byStamp.Remove(f.member(lastElapsed, key))
			f.byStamp.Add(f.member(elapsed, key))
		}
		if at > timeMax && !f.stuck {
			f.byTime.Remove(f.member(timeMax, key))
			f.byTime.Add(f.member(at, key))
		}
		at = max(at, timeMax)
	}
	b, _, err := f.table.Upsert(f.entry, keyClockEntryBytes)
	if err != nil {
		panic("BUG: the table of a source has no limit: " + err.Error())
	}
	putClock(b, at, elapsed)
	return ""
}

// hold puts a clock into the queues.
func (f *farClocks) hold(key []byte, timeMax, lastElapsed int64) {
	f.n++
	f.byTime.Add(f.member(timeMax, key))
	f.byStamp.Add(f.member(lastElapsed, key))
}

// front is keyClocks.front; there is a clock.
func (f *farClocks) front() int64 { return state.Ordered(f.byTime.First()) }

// oldest is the stamp of the record that was heard longest ago.
func (f *farClocks) oldest() (lastElapsed int64, some bool) {
	first := f.byStamp.First()
	if first == nil {
		return 0, false
	}
	return state.Ordered(first), true
}

// expireAt ends the clocks whose last record has that stamp: the lowest.
func (f *farClocks) expireAt(elapsed int64) {
	if elapsed == math.MaxInt64 {
		return
	}
	f.byStamp.Drain(state.AppendOrdered(nil, elapsed+1), func(m []byte) {
		key := m[8:]
		val, ok := f.table.Get(f.entryOf(key))
		if !ok {
			panic("BUG: a key goes idle that has no clock")
		}
		timeMax, _ := clockOf(val)
		f.byTime.Remove(f.member(timeMax, key))
		f.table.Delete(f.entry)
		f.n--
	})
}

// putClock and clockOf are the entry of a clock.
func putClock(b []byte, timeMax, lastElapsed int64) {
	binary.LittleEndian.PutUint64(b, uint64(timeMax))
	binary.LittleEndian.PutUint64(b[8:], uint64(lastElapsed))
}

func clockOf(b []byte) (timeMax, lastElapsed int64) {
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}
