package ops

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farRows is the order of a sort whose rows do not fit the memory: that of the keys of its table. The earliest row's place is known at any time; what stands
// before it is never looked at: it is full of what was deleted.
type farRows struct {
	rows  *state.Table
	first held
	some  bool
	from  []byte
	// forgetsNext is a mistake planted by a test: the row behind those that went is not taken note of.
	forgetsNext bool
}

// put says that there is a row.
func (f *farRows) put(h held) {
	if !f.some || h.before(f.first) {
		f.first, f.some = h, true
	}
}

// take gives the rows that a watermark has passed, in order. Each must be deleted.
func (f *farRows) take(w int64, emit func(h held, val []byte)) {
	if f.deadline() > w || !f.some {
		return
	}
	f.from, f.some = f.first.appendKey(f.from[:0]), false
	f.rows.Walk(f.from, func(key, val []byte) bool {
		h, err := parseHeld(key)
		if err != nil {
			panic("BUG: a held row is not readable: " + err.Error())
		}
		if h.deadline() > w {
			if f.forgetsNext {
				return false
			}
			f.first, f.some = h, true
			return false
		}
		emit(h, val)
		return true
	})
}

func (f *farRows) deadline() int64 {
	if !f.some {
		return pipeline.NoDeadline
	}
	return f.first.deadline()
}
