package ends

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Record is one at a far end.
type Record struct {
	Seq  uint64
	Data []byte
}

// lineOf is a line of a file or of an object.
type lineOf struct {
	Seq  uint64          `json:"seq"`
	Data json.RawMessage `json:"data"`
	Gap  string          `json:"gap"`
	Open string          `json:"open"`
}

// Lines takes the lines of a file or an object apart. What opens a file is no record; a gap is an error.
func Lines(text []byte) (all []Record, err error) {
	for line := range bytes.Lines(text) {
		var l lineOf
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %.80q: %w", line, err)
		}
		if l.Open != "" {
			continue
		}
		if l.Gap != "" || l.Data == nil {
			return nil, fmt.Errorf("line %.80q is no row", line)
		}
		all = append(all, Record{l.Seq, l.Data})
	}
	return all, nil
}

// Objects reads the zstd objects of one sink, in the order of sequences; names end with SINK/dt=…/hr=…/….jsonl.zst. A record that is there twice
// comes twice.
func Objects(objects map[string][]byte, sink string) (all []Record, err error) {
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer unpack.Close()
	for name, body := range objects {
		if !ObjectOf(name, sink) {
			continue
		}
		text, err := unpack.DecodeAll(body, nil)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", name, err)
		}
		rows, err := Lines(text)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", name, err)
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b Record) int { return int(int64(a.Seq - b.Seq)) })
	return all, nil
}

// ObjectOf tells whether an object is a sink's.
func ObjectOf(name, sink string) bool {
	return strings.Contains(name, "/"+sink+"/dt=") && strings.HasSuffix(name, ".jsonl.zst")
}
