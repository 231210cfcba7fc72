package outbox

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

func genHead() *rapid.Generator[head] {
	return rapid.Custom(func(t *rapid.T) head {
		return head{uid: rapid.String().Draw(t, "uid"), generation: rapid.Uint64().Draw(t, "generation"),
			inc: Incarnation{rapid.Uint32().Draw(t, "major"), rapid.Uint32().Draw(t, "minor")}}
	})
}

func TestChunkRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genHead().Draw(t, "head")
		first := rapid.Uint64Range(1, 1<<62).Draw(t, "first")
		before := rapid.Uint64().Draw(t, "before")
		chain := before
		own := rapid.Bool().Draw(t, "own chains")
		var results []pipeline.Result
		for i := range rapid.Uint64Range(1, 20).Draw(t, "n") {
			p := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
			chain = nextChain(chain, p)
			if own {
				chain = rapid.Uint64().Draw(t, "chain")
			}
			results = append(results, pipeline.Result{Seq: first + i, Last: first + i, Chain: chain, Kind: pipeline.ResultData,
				Pos: pipeline.Position(rapid.Uint64().Draw(t, "pos")), Time: rapid.Int64().Draw(t, "time"), Payload: p})
		}
		rec := appendChunk(nil, &h, before, results)
		kind, body, err := recordKind(rec)
		if err != nil || kind != kindChunk {
			t.Fatal(kind, err)
		}
		ch, err := decodeChunkHead(body)
		if err != nil || ch.head != h || ch.first != first || ch.last != first+uint64(len(results))-1 || ch.chainLast != chain || ch.chainBefore != before {
			t.Fatalf("%+v %v", ch, err)
		}
		got, err := decodeChunk(nil, body, first)
		if err != nil || len(got) != len(results) {
			t.Fatal(err)
		}
		for i := range got {
			if !bytes.Equal(got[i].Payload, results[i].Payload) {
				t.Fatalf("payload %d", i)
			}
			got[i].Payload, results[i].Payload = nil, nil
		}
		if !reflect.DeepEqual(got, results) {
			t.Fatalf("got %+v want %+v", got, results)
		}
	})
}

// records are one of each kind.
func records() [][]byte {
	h := head{uid: "sink", generation: 3, inc: Incarnation{1, 2}}
	chain := nextChain(7, []byte("one"))
	results := []pipeline.Result{{Seq: 9, Last: 9, Chain: chain, Kind: pipeline.ResultData, Pos: 4, Time: pipeline.NoTime, Payload: []byte("one")},
		{Seq: 10, Last: 10, Chain: nextChain(chain, []byte("two")), Kind: pipeline.ResultData, Pos: 5, Time: 1e12, Payload: []byte("two")}}
	return [][]byte{
		appendChunk(nil, &h, 7, results),
		appendChunk(nil, &h, 8, results), // explicit chains
		appendGap(nil, &gapRecord{head: h, first: 5, last: 9, chain: 3, pos: 8, reason: "full"}),
		appendCut(nil, &cutRecord{head: h, seq: 70, chain: 1}),
		appendDrop(nil, Incarnation{4, 5}),
		appendMarks(nil, []markEntry{{uid: "a", generation: 1, start: 2, confirmed: 3, chain: 4, boundFirst: 5, boundLast: 6, confirmedN: 7, droppedN: 8, rejectedN: 3}, {uid: "b"}}),
		appendBound(nil, &boundRecord{head: h, first: 3, last: 8}),
		appendRenumber(nil, &renumberRecord{uid: "a", from: 8, delta: 2}),
		appendForget(nil, "a"),
		appendSettled(nil, "a", 99),
	}
}

// decode runs the decoder of a record's kind.
func decode(rec []byte) (any, error) {
	kind, body, err := recordKind(rec)
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindChunk:
		h, err := decodeChunkHead(body)
		if err != nil {
			return nil, err
		}
		return decodeChunk(nil, body, h.first)
	case kindGap:
		return decodeGap(body)
	case kindCut:
		return decodeCut(body)
	case kindDrop:
		return decodeDrop(body)
	case kindMarks:
		return decodeMarks(rec[0], body)
	case kindBound:
		return decodeBound(body)
	case kindRenumber:
		return decodeRenumber(body)
	case kindForget:
		return decodeForget(body)
	}
	_, seq, err := decodeSettled(body)
	return seq, err
}

func TestRecordsCutAtEachByte(t *testing.T) {
	for _, rec := range records() {
		if _, err := decode(rec); err != nil {
			t.Fatalf("kind %d: %v", rec[1], err)
		}
		for n := range rec {
			if _, err := decode(rec[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("kind %d cut at %d of %d: %v, want ErrCorrupt", rec[1], n, len(rec), err)
			}
		}
		if _, err := decode(append(bytes.Clone(rec), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("kind %d with a byte too many: %v", rec[1], err)
		}
		newer := bytes.Clone(rec)
		newer[0]++
		if _, err := decode(newer); !errors.Is(err, ErrVersion) {
			t.Errorf("kind %d of a newer version: %v, want ErrVersion", rec[1], err)
		}
	}
}

// foldAny decodes and folds a record of whatever bytes: an error is right, a panic or another kind of error is not. (The
// frame's checksum stands before this decoder.)
func foldAny(t *testing.T, rec []byte) {
	if _, err := decode(rec); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Fatalf("an error of another kind: %v", err)
	}
	o := &Outbox{streams: map[string]*Stream{}}
	for _, good := range records() {
		if err := o.fold(1, good, 0); err != nil {
			t.Fatal(err)
		}
	}
	_ = o.fold(2, rec, 0)
	_ = o.fold(3, rec, 0)
}

func TestRecordsEachBitFlipped(t *testing.T) {
	for _, rec := range records() {
		for i := range len(rec) * 8 {
			flipped := bytes.Clone(rec)
			flipped[i/8] ^= 1 << (i % 8)
			foldAny(t, flipped)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, rec := range records() {
		f.Add(rec)
	}
	f.Fuzz(foldAny)
}

// TestQueueModel compares the index with a plain map over random changes.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{uid: "q", generation: 1}
		cells := map[uint64]string{} // seq: "data" or a gap's reason
		confirmed, last := uint64(0), uint64(0)
		var dropped, left uint64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				n := rapid.Uint64Range(1, 5).Draw(t, "n")
				first := max(last, confirmed) + 1
				q.addChunk(chunk{first: first, last: first + n - 1, recorded: first, bytes: int64(n), at: first})
				for seq := first; seq < first+n; seq++ {
					cells[seq] = "data"
				}
				last = first + n - 1
			case 1:
				if last <= confirmed {
					continue
				}
				first := rapid.Uint64Range(confirmed+1, last).Draw(t, "first")
				to := rapid.Uint64Range(first, last).Draw(t, "to")
				q.addGap(gap{first: first, last: to, reason: "gap"})
				for seq := first; seq <= to; seq++ {
					cells[seq] = "gap"
				}
			case 2:
				if last <= confirmed {
					continue
				}
				to := rapid.Uint64Range(confirmed+1, last).Draw(t, "confirm")
				q.confirm(to, 0)
				for seq := confirmed + 1; seq <= to; seq++ {
					left++
					if cells[seq] == "gap" {
						dropped++
					}
					delete(cells, seq)
				}
				confirmed = to
			case 3:
				at := rapid.Uint64Range(confirmed, max(last, confirmed)).Draw(t, "cut")
				q.cut(1, at, 0)
				q.settle(confirmed)
				for seq := range cells {
					if seq > at {
						delete(cells, seq)
					}
				}
				last = at
			}
			if q.droppedN != dropped || q.confirmedN+q.droppedN != left || q.confirmed != confirmed || q.last() != max(last, confirmed) {
				t.Fatalf("dropped %d/%d left %d/%d confirmed %d/%d last %d/%d", q.droppedN, dropped, q.confirmedN+q.droppedN, left, q.confirmed,
					confirmed, q.last(), last)
			}
			for seq := confirmed + 1; seq <= last; seq++ {
				isGap := q.gapAt(seq) != nil
				if isGap != (cells[seq] == "gap") || !isGap && q.chunkAt(seq) < 0 {
					t.Fatalf("sequence %d is %q; gap %v, chunk %d", seq, cells[seq], isGap, q.chunkAt(seq))
				}
			}
			if seq := q.missing(confirmed, last); seq != 0 {
				t.Fatalf("%d is missing", seq)
			}
			if len(q.chunks) == 0 && q.bytes != 0 {
				t.Fatalf("%d bytes in no chunk", q.bytes)
			}
		}
	})
}
