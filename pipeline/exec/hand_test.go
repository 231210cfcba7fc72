package exec

import (
	"context"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// largest notes the most payload bytes that were handed over at once, and counts the results.
type largest struct {
	bytes, results int
	last           uint64
}

func (l *largest) Emit(_ context.Context, rs []pipeline.Result) error {
	n := 0
	for _, r := range rs {
		n += len(r.Payload)
		if r.Seq != l.last+1 {
			panic("a sequence is missing")
		}
		l.last = r.Seq
	}
	l.bytes, l.results = max(l.bytes, n), l.results+len(rs)
	return nil
}
func (l *largest) Barrier(context.Context, pipeline.Barrier) error { return nil }

// TestABatchIsHandedOverInParts: rows that repeat a document of a megabyte are not all encoded before the first leaves.
func TestABatchIsHandedOverInParts(t *testing.T) {
	for _, size := range []int{10, 50_000, 1 << 20, 20 << 20} {
		document, count := pipeline.StringValue(strings.Repeat("x", size)), max(3, min(2000, 64<<20/size))
		rows := make([]pipeline.Row, count)
		for i := range rows {
			rows[i].Slots = []pipeline.Value{document}
		}
		far := &largest{}
		s := &sink{uid: "s", columns: []codec.Column{{Name: "d", Slot: 0}}, whole: -1, input: &edge{rows: rows}, target: far, lanes: make([]encodeLane, 1)}
		if _, err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if far.results != count || far.bytes > handBytes+size+handRows*16 {
			t.Errorf("rows of %d bytes: %d of %d results, %d bytes at once", size, far.results, count, far.bytes)
		}
	}
}
