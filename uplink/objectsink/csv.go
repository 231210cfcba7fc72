package objectsink

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/jsonrow"
)

// SeqColumn is the first column of every CSV object: the result's sequence.
const SeqColumn = "_seq"

// table writes rows as CSV (RFC 4180): a header, then one record for each row, each ended by CR LF. Texts, arrays and objects stand in
// quotes, numbers, true and false bare, and what is null or missing is empty: an empty text is "". The bytes depend on the rows and the columns alone.
type table struct {
	columns []string
	index   map[string]int // by name; behind columns those that a batch has besides
	extra   []string       // of the batch at hand
	values  [][]byte       // of the row at hand
	plant   *planted
}

func newTable(columns []string, plant *planted) *table {
	t := &table{columns: columns, index: make(map[string]int, len(columns)), plant: plant}
	for i, name := range columns {
		t.index[name] = i
	}
	return t
}

// validColumns checks the names for CSV.
func validColumns(columns []string) error {
	seen := map[string]bool{SeqColumn: true}
	for _, name := range columns {
		if seen[name] || !utf8.ValidString(name) {
			return fmt.Errorf("object sink has the column %q twice, or it is no text", name)
		}
		seen[name] = true
	}
	if len(columns) == 0 {
		return errors.New("object sink has no columns, which format csv needs")
	}
	return nil
}

// encode appends header and rows of the results behind held. Gaps have no record: a sequence between first and last of the object's name
// that is not there will never come. Rows that are no JSON objects are named.
func (t *table) encode(dst []byte, b *uplink.Batch, held uint64) ([]byte, []uplink.Rejected) {
	rejected := t.discover(b, held)
	defer t.forget()
	if len(rejected) > 0 {
		return dst, rejected
	}
	dst = append(dst, SeqColumn...)
	for _, list := range [][]string{t.columns, t.extra} {
		for _, name := range list {
			dst = appendName(append(dst, ','), name)
		}
	}
	dst = append(dst, '\r', '\n')
	for i := range b.Results {
		if r := &b.Results[i]; r.Last > held && r.Kind == pipeline.ResultData {
			dst = t.appendRow(dst, r)
		}
	}
	return dst, nil
}

// discover looks at each row once: at whether it can be written, and for members that the plan does not know. Rows of an earlier plan, not delivered
// before it changed, have them: they get columns behind the others, in the order in which they come.
func (t *table) discover(b *uplink.Batch, held uint64) (rejected []uplink.Rejected) {
	for i := range b.Results {
		r := &b.Results[i]
		if r.Last <= held || r.Kind != pipeline.ResultData {
			continue
		}
		err := jsonrow.Members(r.Payload, func(name, value []byte) error {
			if _, known := t.index[string(name)]; !known && !t.plant.fixedHeader {
				t.index[string(name)] = len(t.columns) + len(t.extra)
				t.extra = append(t.extra, string(name))
			}
			if value[0] == '"' {
				_, err := jsonrow.Unquote(value)
				return err
			}
			if !utf8.Valid(value) {
				return jsonrow.ErrRow
			}
			return nil
		})
		if err != nil {
			rejected = append(rejected, uplink.Rejected{Seq: r.Seq, Reason: err.Error()})
		}
	}
	return rejected
}

func (t *table) forget() {
	for _, name := range t.extra {
		delete(t.index, name)
	}
	t.extra = t.extra[:0]
}

func (t *table) appendRow(dst []byte, r *pipeline.Result) []byte {
	n := len(t.columns) + len(t.extra)
	for len(t.values) < n {
		t.values = append(t.values, nil)
	}
	clear(t.values)
	_ = jsonrow.Members(r.Payload, func(name, value []byte) error { // discover has seen it whole
		if i, known := t.index[string(name)]; known {
			t.values[i] = value
		}
		return nil
	})
	dst = strconv.AppendUint(dst, r.Seq, 10)
	for _, v := range t.values[:n] {
		dst = t.appendValue(append(dst, ','), v)
	}
	return append(dst, '\r', '\n')
}

// appendValue writes a JSON value as a field.
func (t *table) appendValue(dst, v []byte) []byte {
	switch {
	case len(v) == 0 || v[0] == 'n':
		return dst
	case v[0] == '"':
		v, _ = jsonrow.Unquote(v) // discover has tried it
	case v[0] != '{' && v[0] != '[':
		return append(dst, v...)
	}
	if t.plant.unquoted {
		return append(append(append(dst, '"'), v...), '"')
	}
	return appendQuoted(dst, v)
}

func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for {
		before, after, found := bytes.Cut(text, []byte{'"'})
		dst = append(dst, before...)
		if !found {
			return append(dst, '"')
		}
		dst, text = append(dst, '"', '"'), after
	}
}

// appendName quotes a column's name where RFC 4180 wants it.
func appendName(dst []byte, name string) []byte {
	if name == "" || strings.ContainsAny(name, ",\"\r\n") || strings.TrimSpace(name) != name {
		return appendQuoted(dst, []byte(name))
	}
	return append(dst, name...)
}
