package equality

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// anySource gives the sources of a drawn case another format now and then, CSV with several records in a message or Sparkplug, whose decoder has state
// of its own, and a watermark per key.
func anySource(t *rapid.T, text string, entries []pipeline.Entry) (string, []pipeline.Entry) {
	perKey := rapid.SampledFrom([]string{"", "", ", watermark_by: k", ", watermark_by: [k, v], watermark_keys: 5", ", watermark_by: [k, v], watermark_keys: 40"}).Draw(t, "watermark by")
	text = strings.ReplaceAll(text, "time: {field: ts,", "time: {field: ts"+perKey+",")
	switch rapid.SampledFrom([]string{"json", "json", "csv", "sparkplug"}).Draw(t, "format") {
	case "csv":
		text = strings.ReplaceAll(text, "decode: json", "decode: [{as: csv, columns: [id, k, ts, v]}]")
		for i := range entries {
			if r := rowOf(&entries[i]); r != nil {
				entries[i].Payload = linesOf(t, r)
			}
		}
	case "sparkplug":
		text = strings.ReplaceAll(text, "decode: json", "decode: sparkplug")
		nodes := map[string]int{}
		for i := range entries {
			if r := rowOf(&entries[i]); r != nil {
				reportOf(t, &entries[i], r, nodes)
			}
		}
	}
	return text, entries
}

type drawnRow struct {
	ID, TS, V int64
	K         string
}

// rowOf reads what drawJournal wrote; nil: something else.
func rowOf(e *pipeline.Entry) *drawnRow {
	r := &drawnRow{}
	if e.Kind != pipeline.EntryMessage || json.Unmarshal(e.Payload, r) != nil || r.K == "" {
		return nil
	}
	return r
}

// linesOf makes one to four records of a row, some of them late, some refused.
func linesOf(t *rapid.T, r *drawnRow) (b []byte) {
	for n := range rapid.IntRange(1, 4).Draw(t, "lines") {
		if rapid.IntRange(0, 9).Draw(t, "bad line") == 0 {
			b = append(b, "x,y\n"...)
		}
		b = fmt.Appendf(b, "%d,%s,%d,%d\n", r.ID+1000*int64(n), r.K, r.TS+int64(rapid.SampledFrom([]int{0, 1, 20, -20}).Draw(t, "further")*n), r.V+int64(n))
	}
	return b
}

// reportOf makes a Sparkplug message of a row: mostly data in sequence, sometimes a birth, a hole, an alias.
func reportOf(t *rapid.T, e *pipeline.Entry, r *drawnRow, next map[string]int) {
	node := e.Source + "/" + r.K
	kind := rapid.SampledFrom([]string{"NDATA", "NDATA", "NDATA", "NDATA", "NBIRTH", "NDEATH"}).Draw(t, "type")
	if kind == "NBIRTH" {
		next[node] = 0
	}
	if rapid.IntRange(0, 9).Draw(t, "hole") == 0 {
		next[node]++
	}
	var p []byte
	metric := func(name string, alias uint64, datatype uint64, value func([]byte) []byte) {
		var m []byte
		if kind != "NDATA" || rapid.Bool().Draw(t, "by name") {
			m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), name)
			m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), datatype)
		}
		m = protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), alias)
		p = protowire.AppendBytes(protowire.AppendTag(p, 2, protowire.BytesType), value(m))
	}
	long := func(v int64) func([]byte) []byte {
		return func(m []byte) []byte {
			return protowire.AppendVarint(protowire.AppendTag(m, 11, protowire.VarintType), uint64(v))
		}
	}
	metric("id", 1, 4, long(r.ID))
	metric("ts", 2, 4, long(r.TS))
	metric("v", 3, 4, long(r.V))
	metric("k", 4, 12, func(m []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(m, 15, protowire.BytesType), r.K)
	})
	p = protowire.AppendVarint(protowire.AppendTag(p, 3, protowire.VarintType), uint64(next[node]&255))
	next[node]++
	e.Topic, e.Payload = []byte("spBv1.0/"+e.Source+"/"+kind+"/"+r.K), p
}
