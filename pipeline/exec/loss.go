package exec

import (
	"encoding/binary"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// Loss is a stretch of event time of which records are lost to the pipeline for good: it goes on from the state of another device, and what that device received behind it
// is not in the journal. It is the same in every replay, so that what it does to results is.
//
// Results of records up to After are whole, whatever their window: the records that are lost came behind it. 0: none are known to be.
type Loss struct {
	FromMs, ToMs int64
	After        pipeline.Position
}

// lossColumns are where a sink's rows have the bounds of their window; ok is false when they have none, or are documents as they came.
type lossColumns struct {
	start, end int // slots
	name       string
	ok         bool
}

// Partial is the member that a row gets whose window overlaps a Loss; PartialOther, when its columns have one of that name.
const (
	Partial      = "partial"
	PartialOther = "$partial"
)

func lossColumnsOf(columns []codec.Column, whole int) (l lossColumns) {
	if whole >= 0 {
		return l
	}
	found := 0
	l.name = Partial
	for _, c := range columns {
		switch c.Name {
		case plan.ColumnStart:
			l.start = c.Slot
			found++
		case plan.ColumnEnd:
			l.end = c.Slot
			found++
		case Partial:
			l.name = PartialOther
		}
	}
	l.ok = found == 2
	return l
}

// mark adds the member to the object at the end of b, of a row whose window overlaps the loss. A window [start, end) was open at its beginning when end lies behind it; a count window's
// end is its last record.
func (l *lossColumns) mark(b []byte, loss *Loss, pos pipeline.Position, slots []pipeline.Value) []byte {
	if !l.ok || loss == nil || loss.After > 0 && pos <= loss.After {
		return b
	}
	start, end := slots[l.start], slots[l.end]
	if start.Kind != pipeline.Int || end.Kind != pipeline.Int || end.Int() <= loss.FromMs || start.Int() >= loss.ToMs {
		return b
	}
	b = append(b[:len(b)-1], `,"`...)
	b = append(b, l.name...)
	return append(b, `":true}`...)
}

// SourceClock tells where the event time of a source stands by its state in a savepoint: the entry without a key of the table that SourceTable names. started is false when no
// record has set it.
func SourceClock(entry []byte) (watermark, newest int64, started bool) {
	if len(entry) < sourceStateBytesOld || entry[0] != 1 {
		return 0, 0, false
	}
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(entry[2+8*i:])) }
	watermark, newest = at(2), at(0)
	if watermark == pipeline.MaxWatermark { // drained
		watermark = newest
	}
	return watermark, newest, watermark != pipeline.MinWatermark
}

// SourceTable is the uid and the name of the table of a source.
func SourceTable(source string) (uid, name string) { return sourceUID(source), sourceTable }
