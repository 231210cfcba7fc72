package receiver

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

func TestRowRoundTripAndCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := row{generation: rapid.Uint64().Draw(t, "g"), opened: rapid.Uint64().Draw(t, "o"), seq: rapid.Uint64().Draw(t, "s"), chain: rapid.Uint64().Draw(t, "c"),
			inc: uplink.Incarnation{Major: rapid.Uint32().Draw(t, "a"), Minor: rapid.Uint32().Draw(t, "b")}, board: rapid.String().Draw(t, "board")}
		b := r.encode()
		if got, err := decodeRow(b); err != nil || got != r {
			t.Fatalf("%+v %v", got, err)
		}
		for n := range 41 {
			if _, err := decodeRow(b[:n]); err == nil {
				t.Fatalf("cut at %d decodes", n)
			}
		}
		b[0]++
		if _, err := decodeRow(b); err == nil {
			t.Fatal("a newer version decodes: its progress would be taken for another")
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add((&row{generation: 1, board: "b"}).encode(), recordKey(1, 2, 3))
	f.Fuzz(func(t *testing.T, b, k []byte) {
		if r, err := decodeRow(b); err == nil && !bytes.Equal(r.encode(), b) {
			t.Fatalf("%x came back as %x", b, r.encode())
		}
		_, _, _, _ = parseRecordKey(k)
	})
}

// FuzzFreshLines: whatever was held, what is taken of a checked body runs from the sequence behind it to the end.
func FuzzFreshLines(f *testing.F) {
	f.Add([]byte("{\"seq\":5,\"data\":1}\n{\"seq\":6,\"last\":9,\"gap\":\"x\"}\n"), uint64(5), uint64(9), uint64(7))
	f.Fuzz(func(t *testing.T, body []byte, first, last, held uint64) {
		if first == 0 || wire.Lines(body, first, last, func(wire.Line) error { return nil }) != nil || held < first-1 || held >= last {
			return
		}
		if err := wire.Lines(freshLines(body, held), held+1, last, func(wire.Line) error { return nil }); err != nil {
			t.Fatalf("behind %d of %q: %v", held, body, err)
		}
	})
}

// TestAdmit is the table of PROTOCOL.md, "Receiver's duty".
func TestAdmit(t *testing.T) {
	at := row{generation: 2, opened: 2, inc: uplink.Incarnation{Major: 1, Minor: 3}, seq: 10, board: "a"}
	fresh := row{opened: 1, inc: at.inc, board: "a"}
	begun := row{generation: 1, opened: 2, inc: at.inc, seq: 10, board: "a"}
	for _, c := range []struct {
		name           string
		row            row
		found          bool
		inc            uplink.Incarnation
		board          string
		generation     uint64
		previous, last uint64
		want           verdict
	}{
		{"continues", at, true, at.inc, "a", 2, 10, 12, admitted},
		{"overlaps", at, true, at.inc, "a", 2, 8, 12, admitted},
		{"known", at, true, at.inc, "a", 2, 8, 10, known},
		{"hole", at, true, at.inc, "a", 2, 11, 12, hole},
		{"lower minor", at, true, uplink.Incarnation{Major: 1, Minor: 2}, "a", 2, 10, 12, fenced},
		{"other board", at, true, at.inc, "b", 2, 10, 12, fenced},
		{"ended generation", at, true, at.inc, "a", 1, 10, 12, fenced},
		{"higher, did not open", at, true, uplink.Incarnation{Major: 2}, "a", 2, 10, 12, hole},
		{"later generation, did not open", at, true, at.inc, "a", 3, 10, 12, hole},
		{"never opened", row{}, false, at.inc, "a", 1, 0, 2, hole},
		{"first of all", fresh, true, at.inc, "a", 1, 0, 2, admitted},
		{"first of all with a hole", fresh, true, at.inc, "a", 1, 3, 4, hole},
		{"new generation begins anywhere", begun, true, at.inc, "a", 2, 5, 7, admitted},
	} {
		if got := c.row.admit(c.found, c.inc, c.board, c.generation, c.previous, c.last); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
